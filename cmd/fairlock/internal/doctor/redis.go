package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/redisbackend"
)

// Redis examines the sentinels, the servers, and the root.
func Redis(ctx context.Context, t *connect.Target) []schema.Finding {
	client, o, err := t.RedisConfig()
	if err != nil {
		return []schema.Finding{schema.NewFinding(alarms, schema.Bad, err.Error())}
	}
	ctx, cancel := context.WithTimeout(ctx, min(2*serverTimeout, t.Within()))
	defer cancel()
	r, err := redisbackend.Examine(ctx, client, o)
	if err != nil && len(r.Servers) == 0 && len(r.Sentinels) == 0 {
		return []schema.Finding{schema.NewFinding(connection, schema.Bad, fmt.Sprintf("%s does not report its status: %v", t.Address, err))}
	}
	return judgeRedis(r)
}

// advised returns a finding with an advice.
func advised(check, level, advice, format string, args ...any) schema.Finding {
	f := schema.NewFinding(check, level, fmt.Sprintf(format, args...))
	f.Advice = advice
	return f
}

// judgeRedis returns the findings from a report.
func judgeRedis(r redisbackend.Report) []schema.Finding {
	found := judgeSentinels(r)
	var master *redisbackend.Server
	for i, s := range r.Servers {
		found = append(found, judgeRedisServer(s))
		if s.Addr == r.Master {
			master = &r.Servers[i]
		}
	}
	if master == nil {
		if slices.ContainsFunc(r.Servers, func(s redisbackend.Server) bool { return s.Err == "" }) {
			found = append(found, advised(alarms, schema.Bad, "name the master in the URL too", "no server takes writes"))
		}
		return found
	}
	for _, other := range r.Servers {
		if other.Addr != r.Master && other.Err == "" && !other.Replica && other.Mode != "cluster" {
			found = append(found, advised(keeps, schema.Bad, "make one a replica of the other, or name the servers of one only: a program locks on the first that takes writes",
				"%s and %s are both masters", r.Master, other.Addr))
		}
	}
	return slices.Concat(found, judgeRedisKeeps(r, *master), judgeRoot(r), judgeRedisClock(*master))
}

// judgeSentinels returns the findings about what the sentinels report.
func judgeSentinels(r redisbackend.Report) []schema.Finding {
	var found []schema.Finding
	named := map[string]bool{}
	for _, s := range r.Sentinels {
		if s.Err != "" {
			found = append(found, schema.NewFinding(connection, schema.Bad, fmt.Sprintf("the sentinel %s does not name the master: %s", s.Addr, s.Err)))
			continue
		}
		named[s.Master] = true
		f := schema.NewFinding(alarms, schema.Good, fmt.Sprintf("the sentinel %s is well: the master is %s, with %s; %d of %d must agree that it is down",
			s.Addr, s.Master, counted(s.Replicas, "replica", "replicas"), s.Quorum, s.Others+1))
		if r.MaxTTL > 0 && s.FailoverTimeout <= r.MaxTTL {
			f = advised(keeps, schema.Warn, "set failover-timeout above the greatest TTL: a sentinel with an old view moves replicas back to its master after that time",
				"the sentinel %s has failover-timeout %s, and the greatest TTL is %s", s.Addr, short(s.FailoverTimeout), short(r.MaxTTL))
		}
		found = append(found, f)
	}
	if len(named) > 1 {
		found = append(found, advised(keeps, schema.Bad, "restart the sentinels that are wrong, before they move a replica back to an old master",
			"the sentinels name different masters"))
	}
	return found
}

// judgeRedisServer returns the finding about one server.
func judgeRedisServer(s redisbackend.Server) schema.Finding {
	if s.Err != "" {
		return schema.NewFinding(connection, schema.Bad, s.Addr+" does not report its status: "+s.Err)
	}
	kind, role, kept := "Redis", "master", "keeps nothing on disk"
	if s.Valkey {
		kind = "Valkey"
	}
	if s.Replica {
		role = "replica of " + s.Follows
	}
	switch {
	case s.AppendOnly:
		kept = "append-only file"
	case s.Saves != "":
		kept = "snapshots"
	}
	if s.Mode == "cluster" {
		role += " in a cluster"
	}
	memory := fmt.Sprintf("%.1f MB", float64(s.Memory)/1e6)
	if s.MaxMemory > 0 {
		memory += fmt.Sprintf(" of %.1f MB", float64(s.MaxMemory)/1e6)
	}
	switch {
	case s.Version == "":
		return schema.NewFinding(alarms, schema.Warn, s.Addr+" answers, and this login may not see its status (info)")
	case s.SaveFailed:
		return advised(alarms, schema.Bad, "free its disk: a server that cannot write refuses all writes", "%s could not write its data to the disk", s.Addr)
	case s.Replica && !s.Linked:
		return advised(alarms, schema.Warn, "nothing that it lacks survives a failover to it", "%s is not connected to its master %s", s.Addr, s.Follows)
	case s.MaxConnections > 0 && s.Connections > s.MaxConnections/10*9:
		return advised(alarms, schema.Warn, "a program that finds none cannot renew its session: raise maxclients", "%s has %d of at most %d connections", s.Addr, s.Connections, s.MaxConnections)
	case s.MaxMemory > 0 && s.Memory > s.MaxMemory/10*9:
		return advised(alarms, schema.Warn, "a server without memory refuses joins and renewals: raise maxmemory", "%s uses %s", s.Addr, memory)
	}
	return schema.NewFinding(alarms, schema.Good, fmt.Sprintf("%s is well: %s %s, %s, %d of %d connections, %s, %s", s.Addr, kind, s.Version, role, s.Connections, s.MaxConnections, memory, kept))
}

// judgeRedisKeeps returns what the servers keep of the promises of a lock.
func judgeRedisKeeps(r redisbackend.Report, master redisbackend.Server) []schema.Finding {
	f := keepsFinding(r.Keeps(), redisSetup(r, master))
	switch {
	case strings.HasPrefix(master.Policy, "allkeys"):
		f.Level, f.Advice = schema.Bad, "set maxmemory-policy to noeviction: the server may evict a lock that a client holds"
	case r.Uncounted():
		f.Level, f.Advice = schema.Bad, "take the others away, or count all servers that have the data (nodes=): after a failover two clients can hold"
	case r.Nodes > 1:
		f.Advice = "before a server returns to a former master, restart that master"
	}
	found := []schema.Finding{f}
	awaited, online := r.Nodes/2, 0
	for _, a := range master.Attached {
		if a.State == "online" {
			online++
		}
		if a.State != "online" || a.Silent > 10*time.Second {
			found = append(found, advised(keeps, schema.Warn, "it does not count for a renewal now", "the replica %s is %s, and was last heard of %s ago", a.Addr, a.State, short(a.Silent)))
		}
	}
	if online < awaited {
		found = append(found, advised(keeps, schema.Bad, "start the replicas: no renewal counts, so nothing can be locked",
			"each renewal waits for %s, and %d are connected", counted(awaited, "replica", "replicas"), online))
	}
	if r.Nodes > 1 && len(master.Attached) < r.Nodes-1 && online >= awaited {
		found = append(found, advised(keeps, schema.Warn, "start it, or one that replaces it: with one less no renewal may count",
			"the root counts %d servers, and %d are connected", r.Nodes, len(master.Attached)+1))
	}
	if r.Nodes > 1 && master.BacklogTTL > 0 {
		found = append(found, advised(keeps, schema.Warn, "set repl-backlog-ttl 0", "a master that has no replica for %s begins a new life, and all holds end", short(master.BacklogTTL)))
	}
	return found
}

// redisSetup describes what Keeps depends on.
func redisSetup(r redisbackend.Report, master redisbackend.Server) string {
	switch {
	case strings.HasPrefix(master.Policy, "allkeys"):
		return "maxmemory-policy is " + master.Policy
	case r.Uncounted():
		return fmt.Sprintf("the root counts %s, and the master has %s", counted(r.Nodes, "server", "servers"), counted(len(master.Attached), "replica", "replicas"))
	case r.Nodes > 1:
		return fmt.Sprintf("each renewal waits for %d of %s", r.Nodes/2, counted(r.Nodes-1, "replica", "replicas"))
	}
	return "one server"
}

// neverUsed begins the text about a root that no program has used.
const neverUsed = "no program has used root "

// unused reports whether that is what a finding reports.
func unused(f schema.Finding) bool { return f.Check == root && strings.HasPrefix(f.Text, neverUsed) }

// judgeRoot returns the findings about the root, its life, and what the login may do.
func judgeRoot(r redisbackend.Report) []schema.Finding {
	var found []schema.Finding
	add := func(level, advice, format string, args ...any) {
		found = append(found, advised(root, level, advice, format, args...))
	}
	for _, h := range r.Hidden {
		if !strings.HasPrefix(h, "settings") {
			add(schema.Warn, "", "this login may not see all: %s", h)
		}
	}
	switch {
	case len(r.MissingToRead) > 0:
		add(schema.Bad, connect.RightsHelp, "this login lacks the right to use %s", some(r.MissingToRead))
		return found
	case len(r.MissingToLock) > 0:
		add(schema.Warn, connect.RightsHelp, "this login may read the queues, and not lock: it lacks the right to use %s", some(r.MissingToLock))
	}
	switch {
	case r.Refused != "":
		add(schema.Bad, "", "%s", connect.RedisWords(r.Refused))
	case r.Layout == "" && !r.Claimed && len(r.Hidden) == 0:
		add(schema.Warn, `run "fairlock init" with the address of the server, or let the first program wait for the greatest TTL`, neverUsed+"%q", r.Root)
		return found
	case r.Life != r.Stored:
		add(schema.Bad, "wait until all earlier holds have ended; the time passes only while a program tries to lock",
			"the server was restarted, has failed over, or its data was deleted: nothing is granted for another %s", short(max(0, r.MaxTTL-r.Counted)))
	}
	if r.Stale > 0 {
		add(schema.Warn, "a program that waits, or that runs for a minute, ends them", "%s not renewed for three times the TTL", counted(r.Stale, "session was", "sessions were"))
	}
	if len(found) == 0 {
		records := ""
		if r.Records >= 0 {
			records = ", " + counted(r.Records, "record", "records")
		}
		add(schema.Good, "", "%q has version %s, greatest TTL %s, %s, %s, %s%s", r.Root, r.Layout, r.MaxTTL,
			counted(r.Sessions, "session", "sessions"), counted(r.Queues, "queue", "queues"), counted(r.Entries, "entry", "entries"), records)
	}
	return found
}

// judgeRedisClock compares the server's clock with ours. Tokens of a new life go on by the clock.
func judgeRedisClock(s redisbackend.Server) []schema.Finding {
	off := s.Clock.Abs() - s.Within
	if off < maxSkew {
		return nil
	}
	word := "ahead of"
	if s.Clock < 0 {
		word = "behind"
	}
	return []schema.Finding{advised(clock, schema.Warn, "keep clocks together with NTP: ages are wrong, and where data is lost, tokens rise only if the servers' clocks differ by less than the greatest TTL",
		"the clock of %s is %s this machine's by %s", s.Addr, word, short(s.Clock.Abs()))}
}

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/internal/address"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/session/driver"
)

// server is what was found out about one server of PostgreSQL.
type server struct {
	host   string
	report pgbackend.Report
	err    string // why there is no report
}

// Postgres examines every server, and the tables on the primary.
func Postgres(ctx context.Context, t *connect.Target) []schema.Finding {
	_, o, err := t.PostgresConfig()
	if err != nil {
		return []schema.Finding{schema.NewFinding(alarms, schema.Bad, err.Error())}
	}
	servers := make([]server, len(t.Address.Hosts))
	var all sync.WaitGroup
	for i, host := range t.Address.Hosts {
		all.Go(func() { servers[i] = examined(ctx, t, host, o.Schema) })
	}
	all.Wait()
	switch t.Address.Listen {
	case "":
		return judgePostgres(servers, true)
	case address.ListenOff:
		return judgePostgres(servers, false)
	}
	return append(judgePostgres(servers, false), judgeListeners(ctx, t, o.Schema)...)
}

// examined examines one server.
func examined(ctx context.Context, t *connect.Target, host, in string) server {
	s := server{host: host}
	ctx, cancel := context.WithTimeout(ctx, min(2*serverTimeout, t.Within()))
	defer cancel()
	conn, err := t.Postgres(ctx, host)
	if err == nil {
		s.report, err = examine(ctx, conn, in)
	}
	if err != nil {
		s.err = connect.PostgresReason(err)
	}
	return s
}

func examine(ctx context.Context, conn *pgx.Conn, in string) (pgbackend.Report, error) {
	defer func() { _ = conn.Close(ctx) }() // nothing of it is left
	return pgbackend.Examine(ctx, conn, in)
}

// judgePostgres returns the findings from the reports of all servers. listens is true if
// notifications come from them.
func judgePostgres(servers []server, listens bool) []schema.Finding {
	var found []schema.Finding
	var primaries []server
	for _, s := range servers {
		if s.err != "" {
			found = append(found, schema.NewFinding(connection, schema.Bad, s.host+" does not report its status: "+s.err))
			continue
		}
		found = append(found, judgeServerOf(s))
		if !s.report.Standby {
			primaries = append(primaries, s)
		}
	}
	if len(primaries) == 0 {
		return found
	}
	one := primaries[0].report
	for _, other := range primaries[1:] {
		f := schema.NewFinding(keeps, schema.Bad, fmt.Sprintf("%s and %s are both primaries: each grants the same locks", primaries[0].host, other.host))
		f.Advice = "stop all but one, and make standbys of them again"
		if other.report.System != one.System {
			f.Text = fmt.Sprintf("%s and %s are servers of two databases", primaries[0].host, other.host)
			f.Advice = "name the servers of one in the URL: a program locks on the first that takes writes"
		}
		found = append(found, f)
	}
	others := slices.DeleteFunc(slices.Clone(servers), func(s server) bool { return s.err != "" || !s.report.Standby })
	return slices.Concat(found, judgeKeeps(one, others), judgeTables(one, listens), judgeClock(primaries[0].host, one))
}

// judgeServerOf returns the finding about one server.
func judgeServerOf(s server) schema.Finding {
	r := s.report
	role := "primary"
	if r.Standby {
		role = "standby"
	}
	secure := "no TLS"
	if r.TLS != "" {
		secure = r.TLS
	}
	f := schema.NewFinding(alarms, schema.Good, fmt.Sprintf("%s is well: PostgreSQL %s, %s, %d of %d connections, %s", s.host, r.Version, role, r.Connections, r.MaxConnections, secure))
	if r.MaxConnections > 0 && r.Connections > r.MaxConnections/10*9 {
		f.Level = schema.Warn
		f.Text = fmt.Sprintf("%s has %d of at most %d connections", s.host, r.Connections, r.MaxConnections)
		f.Advice = "a program that finds none cannot renew its session: raise max_connections, or use a pooler"
	}
	return f
}

// judgeKeeps returns what the servers keep of the promises of a lock.
func judgeKeeps(r pgbackend.Report, standbys []server) []schema.Finding {
	f := keepsFinding(r.Keeps(), setup(r))
	switch {
	case !r.Fsync:
		f.Level, f.Advice = schema.Bad, "turn fsync on: a crash of the machine takes back what was answered, and then two clients hold"
	case r.Keeps().Exclusion != driver.Always:
		f.Level = schema.Warn
		f.Advice = "make sure that the old primary is dead before a standby is promoted, or let each commit wait for the standbys (synchronous_standby_names)"
	}
	found := []schema.Finding{f}
	add := func(level, advice, format string, args ...any) {
		f := schema.NewFinding(keeps, level, fmt.Sprintf(format, args...))
		f.Advice = advice
		found = append(found, f)
	}
	if !r.FullPageWrites {
		add(schema.Warn, "turn it on, unless the file system writes whole pages", "full_page_writes is off: a crash of the machine can damage the data")
	}
	if len(r.Standbys) < r.Awaited {
		add(schema.Bad, "nothing can be locked until the standbys are back, or synchronous_standby_names has less",
			"each commit waits for %s, and %d are connected", counted(r.Awaited, "standby", "standbys"), len(r.Standbys))
	}
	for _, s := range r.Standbys {
		if s.Behind > time.Second {
			add(schema.Warn, "what it does not have is lost if it becomes the primary", "standby %q is %s behind", s.Name, short(s.Behind))
		}
	}
	for _, s := range standbys {
		if r.Awaited > 0 && s.report.SynchronousStandbyNames == "" {
			add(schema.Warn, "use one setting on all servers, or a new primary waits for no standby", "%s has no synchronous_standby_names, and the primary has %q", s.host, r.SynchronousStandbyNames)
		}
	}
	return found
}

// setup describes what Keeps depends on.
func setup(r pgbackend.Report) string {
	switch {
	case !r.Fsync:
		return "fsync is off"
	case r.Copies == 0:
		return "one server"
	case r.Awaited == 0:
		return "no commit waits for " + theStandbys(r.Copies)
	case r.Awaited >= r.Copies:
		return "each commit waits for " + theStandbys(r.Copies)
	}
	return fmt.Sprintf("each commit waits for %d of %d standbys", r.Awaited, r.Copies)
}

func theStandbys(n int) string {
	if n == 1 {
		return "the standby"
	}
	return fmt.Sprintf("the %d standbys", n)
}

// keepsFinding returns for how long the promises are kept, in the words of the documentation.
func keepsFinding(k driver.Keeps, why string) schema.Finding {
	text := fmt.Sprintf("exclusion %s, order %s, tokens %s", k.Exclusion, k.Order, k.Tokens)
	if k == (driver.Keeps{}) {
		text = fmt.Sprintf("exclusion, order and tokens %s", driver.Always)
	}
	if why != "" {
		text += ": " + why
	}
	return schema.NewFinding(keeps, schema.Good, text)
}

// The least that is worth a warning.
const (
	oldTransaction = 10 * time.Minute
	manyDead       = 100_000
)

// judgeTables returns the findings about the tables, their life, and what the login may do.
func judgeTables(r pgbackend.Report, listens bool) []schema.Finding {
	var found []schema.Finding
	add := func(level, advice, format string, args ...any) {
		f := schema.NewFinding(tables, level, fmt.Sprintf(format, args...))
		f.Advice = advice
		found = append(found, f)
	}
	for _, h := range r.Hidden {
		add(schema.Warn, "", "this login may not see all: %s", h)
	}
	const listed = `"fairlock schema --help" has the privileges that are needed`
	readOnly := !slices.ContainsFunc(r.Missing, toRead)
	switch {
	case len(r.Missing) == 0:
	case readOnly && slices.Contains(r.Missing, "INSERT on entry"):
		add(schema.Warn, listed, "this login may read the queues, and not lock: it lacks %s", some(r.Missing))
	default:
		add(schema.Bad, listed, "this login lacks %s", some(r.Missing))
	}
	switch {
	case r.Layout == 0 && len(r.Hidden) == 0:
		add(schema.Bad, `run "fairlock schema postgres --apply" with the address of the database`, "there are no tables in schema %q", r.Schema)
		return found
	case r.Layout == 0:
		return found
	case r.Life != r.Stored:
		add(schema.Bad, "wait until all earlier holds have ended; the time passes only while a program tries to lock",
			"the server has failed over or its data was replaced: nothing is granted for another %s", short(max(0, r.MaxTTL-r.Counted)))
	}
	if r.OldestTransaction > oldTransaction {
		add(schema.Warn, "end it: vacuum removes no row that was deleted since, and the queues become slower",
			"a transaction of %q is open for %s", r.OldestBy, short(r.OldestTransaction))
	}
	if r.DeadRows > manyDead {
		advice := "vacuum the tables, and let autovacuum run more often"
		if !r.Autovacuum {
			advice = "turn autovacuum on"
		}
		add(schema.Warn, advice, "%d rows are dead and not removed, most of them in table %s", r.DeadRows, r.DeadIn)
	}
	if r.Stale > 0 {
		add(schema.Warn, "a program that waits, or that runs for a minute, ends them", "%s not renewed for three times the TTL", counted(r.Stale, "session was", "sessions were"))
	}
	if listens && !r.Listens {
		add(schema.Warn, "with a pooler, give the address of the server itself as listen=; else a waiter learns of its turn by reading, some ten milliseconds later",
			"notifications do not arrive")
	}
	if len(found) == 0 {
		add(schema.Good, "", "version %d, greatest TTL %s, %s, %s, %s, %.1f MB, %d dead rows", r.Layout, r.MaxTTL, counted(r.Sessions, "session", "sessions"),
			counted(r.Entries, "entry", "entries"), counted(r.Records, "record", "records"), float64(r.Size)/1e6, r.DeadRows)
	}
	return found
}

// toRead reports whether a privilege is needed to read.
func toRead(privilege string) bool {
	return strings.HasPrefix(privilege, "SELECT on ") && privilege != "SELECT on place" || strings.HasPrefix(privilege, "USAGE on schema")
}

// some lists the first of many words.
func some(words []string) string {
	const most = 3
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(words[:most], ", "), len(words)-most)
}

// judgeClock compares the server's clock with ours. Tokens after a failover go on by the clock.
func judgeClock(host string, r pgbackend.Report) []schema.Finding {
	off := max(r.Clock-r.Within, -r.Clock-r.Within)
	if off < maxSkew {
		return nil
	}
	word := "ahead of"
	if r.Clock < 0 {
		word = "behind"
	}
	f := schema.NewFinding(clock, schema.Warn, fmt.Sprintf("the clock of %s is %s this machine's by %s", host, word, short(max(r.Clock, -r.Clock))))
	f.Advice = "keep clocks together with NTP: ages are wrong, and after a failover tokens rise only if the servers' clocks differ by less than the greatest TTL"
	return []schema.Finding{f}
}

// judgeListeners finds out whether the servers for notifications are those of the rest.
func judgeListeners(ctx context.Context, t *connect.Target, in string) []schema.Finding {
	var found []schema.Finding
	for host := range strings.SplitSeq(t.Address.Listen, ",") {
		s := examined(ctx, t, host, in)
		if s.err != "" {
			found = append(found, schema.NewFinding(connection, schema.Bad, fmt.Sprintf("%s, which notifications come from, does not report its status: %s", host, s.err)))
		} else if !s.report.Standby && !s.report.Listens {
			f := schema.NewFinding(tables, schema.Warn, "notifications do not arrive from "+host)
			f.Advice = "listen= must name the server itself, not a pooler"
			found = append(found, f)
		}
	}
	return found
}

package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/redisbackend/internal/call"
	"github.com/fairlock/fairlock/redisbackend/internal/link"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

// Examine examines the servers of a client and a root: for tools that report what is wrong, and what the
// servers keep of the promises of a lock. It changes nothing. Its error means that the options are invalid, or that ctx ended.
func Examine(ctx context.Context, client rueidis.ClientOption, opts *Options) (Report, error) {
	db, err := NewBackend(client, opts)
	if err != nil {
		return Report{}, err
	}
	b := db.(*backend) //nolint:forcetypeassert // NewBackend has made it
	defer b.calls.Close()
	e := examiner{b: b, client: client}
	e.Root = b.opts.Root
	addrs := client.InitAddress
	if client.Sentinel.MasterSet != "" {
		addrs = e.sentinels(ctx)
	}
	e.servers(ctx, addrs)
	for _, s := range slices.Clone(e.Servers) {
		if s.Err == "" && !s.Replica && e.Master == "" {
			e.root(ctx, s.Addr, true)
		}
	}
	if ctx.Err() != nil {
		return e.Report, fmt.Errorf("redisbackend: examine: %w", context.Cause(ctx))
	}
	return e.Report, nil
}

type examiner struct {
	Report
	b      *backend
	client rueidis.ClientOption
}

// sentinels asks each sentinel, and returns the addresses of the masters that they name.
func (e *examiner) sentinels(ctx context.Context) []string {
	e.Sentinels = make([]Sentinel, len(e.client.InitAddress))
	var all sync.WaitGroup
	for i, addr := range e.client.InitAddress {
		all.Go(func() { e.Sentinels[i] = e.sentinel(ctx, addr) })
	}
	all.Wait()
	var masters []string
	for _, s := range e.Sentinels {
		if s.Master != "" && !slices.Contains(masters, s.Master) {
			masters = append(masters, s.Master)
		}
	}
	return masters
}

func (e *examiner) sentinel(ctx context.Context, addr string) Sentinel {
	s := Sentinel{Addr: addr}
	n, err := link.Connect(ctx, link.ToSentinels(e.client), addr)
	if err != nil {
		s.Err = reason(err)
		return s
	}
	defer n.Close()
	m, err := n.Do(ctx, n.B().Arbitrary("SENTINEL", "MASTER", e.client.Sentinel.MasterSet).Build()).AsStrMap()
	if err != nil {
		s.Err = reason(err)
		return s
	}
	s.Master = net.JoinHostPort(m["ip"], m["port"])
	s.Quorum, s.Others, s.Replicas = number(m["quorum"]), number(m["num-other-sentinels"]), number(m["num-slaves"])
	s.DownAfter = time.Duration(number(m["down-after-milliseconds"])) * time.Millisecond
	s.FailoverTimeout = time.Duration(number(m["failover-timeout"])) * time.Millisecond
	return s
}

// reason is the part of an error that users can do something with.
func reason(err error) string {
	var server *rueidis.RedisError
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &server):
		return server.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer"
	case errors.As(err, &op) && op.Err != nil:
		return op.Err.Error()
	}
	return err.Error()
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // 0 for what a server does not report
	return n
}

func number64(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// servers asks each server for what it is.
func (e *examiner) servers(ctx context.Context, addrs []string) {
	found := make([]Server, len(addrs))
	hidden := make([][]string, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() { found[i], hidden[i] = e.server(ctx, addr) })
	}
	all.Wait()
	e.Servers = append(e.Servers, found...)
	for _, h := range slices.Concat(hidden...) {
		if !slices.Contains(e.Hidden, h) {
			e.Hidden = append(e.Hidden, h)
		}
	}
}

// server asks one server. The clock comes first, on a connection that is idle.
func (e *examiner) server(ctx context.Context, addr string) (s Server, hidden []string) {
	s.Addr, s.BacklogTTL = addr, -1
	n, err := link.Connect(ctx, e.client, addr)
	if err != nil {
		s.Err = reason(err)
		return s, nil
	}
	defer n.Close()
	began := e.b.clock.Wall()
	now, err := n.Do(ctx, n.B().Time().Build()).AsStrSlice()
	if err == nil && len(now) == 2 {
		s.Within = e.b.clock.Wall().Sub(began) / 2
		s.Clock = time.Unix(number64(now[0]), number64(now[1])*1000).Sub(began.Add(s.Within))
	}
	text, err := n.Do(ctx, n.B().Info().Build()).ToString()
	if err != nil {
		if call.ServerError(err) == nil {
			s.Err = reason(err)
		}
		return s, []string{"info: " + reason(err)}
	}
	s.take(infoFields(text))
	for _, setting := range []string{"repl-backlog-ttl", "save"} {
		value, err := n.Do(ctx, n.B().ConfigGet().Parameter(setting).Build()).AsStrMap()
		switch {
		case err != nil:
			return s, []string{"settings (config get): " + reason(err)}
		case setting == "save":
			s.Saves = value[setting]
		default:
			s.BacklogTTL = time.Duration(number(value[setting])) * time.Second
		}
	}
	return s, nil
}

// infoFields returns the fields of an answer to INFO.
func infoFields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			all[name] = value
		}
	}
	return all
}

// take takes in what INFO shows.
func (s *Server) take(info map[string]string) {
	s.Version, s.Mode = info["redis_version"], info["redis_mode"]
	if v, ok := info["valkey_version"]; ok {
		s.Valkey, s.Version = true, v
	}
	if mode, ok := info["server_mode"]; ok {
		s.Mode = mode
	}
	s.Connections, s.MaxConnections = number(info["connected_clients"]), number(info["maxclients"])
	s.Memory, s.MaxMemory, s.Policy, s.Evicted = number64(info["used_memory"]), number64(info["maxmemory"]), info["maxmemory_policy"], number64(info["evicted_keys"])
	s.AppendOnly = info["aof_enabled"] == "1"
	s.LastSave = time.Unix(number64(info["rdb_last_save_time"]), 0)
	s.SaveFailed = info["rdb_last_bgsave_status"] == "err" || s.AppendOnly && info["aof_last_write_status"] == "err"
	if info["role"] == "slave" {
		s.Replica, s.Follows, s.Linked = true, net.JoinHostPort(info["master_host"], info["master_port"]), info["master_link_status"] == "up"
		return
	}
	for i := range number(info["connected_slaves"]) {
		f := map[string]string{}
		for pair := range strings.SplitSeq(info["slave"+strconv.Itoa(i)], ",") {
			name, value, _ := strings.Cut(pair, "=")
			f[name] = value
		}
		s.Attached = append(s.Attached, Replica{
			Addr: net.JoinHostPort(f["ip"], f["port"]), State: f["state"],
			Behind: max(0, number64(info["master_repl_offset"])-number64(f["offset"])), Silent: time.Duration(number(f["lag"])) * time.Second,
		})
	}
}

// root reads what the server at an address has of the root. In a cluster another one may have it.
func (e *examiner) root(ctx context.Context, addr string, follow bool) {
	n, err := link.Connect(ctx, e.client, addr)
	if err != nil {
		return // it has just answered; what it has is unknown
	}
	defer n.Close()
	text := e.b.set().Examine.Text
	reply, err := n.Do(ctx, n.B().Eval().Script(text).Numkeys(1).Key(e.b.prefix).Arg("look", "", "").Build()).ToArray()
	if err != nil {
		server := call.ServerError(err)
		if server == nil {
			return
		}
		owner, moved := server.IsMoved()
		if moved && follow {
			if !slices.ContainsFunc(e.Servers, func(s Server) bool { return s.Addr == owner }) {
				e.servers(ctx, []string{owner})
			}
			e.root(ctx, owner, false)
			return
		}
		e.Master = addr
		e.Hidden = append(e.Hidden, "root: "+reason(err))
		return
	}
	a := call.Answer{Reply: reply}
	if a.Text(0) == script.Replica {
		return
	}
	e.Master = addr
	x := examined(a)
	e.MissingToRead, e.MissingToLock = x.lacks, slices.DeleteFunc(e.b.lacks(x, false), func(c string) bool { return slices.Contains(x.lacks, c) })
	if a.Text(0) == script.Denied {
		return
	}
	e.Layout, e.MaxTTL, e.Nodes = x.layout, x.maxTTL, int(x.nodes)
	e.Life, e.Stored, e.Claimed = x.server, x.stored, x.claim != ""
	if e.Claimed {
		e.Counted = x.counted
	}
	x.lacks, x.toWrite = nil, nil
	if err := e.b.check(x, false); err != nil {
		_, e.Refused, _ = strings.Cut(err.Error(), driver.ErrRefused.Error()+": ")
	}
	if len(e.MissingToRead) == 0 {
		e.contents(ctx, n)
	}
}

// batch is how many keys are counted with one write.
const batch = 500

// contents counts.
func (e *examiner) contents(ctx context.Context, n *link.Node) {
	p := e.b.prefix
	hide := func(what string, err error) {
		if err != nil && call.ServerError(err) != nil {
			e.Hidden = append(e.Hidden, what+": "+reason(err))
		}
	}
	var now float64
	m := e.master()
	if m != nil {
		now = float64(e.b.clock.Wall().Add(m.Clock).UnixMicro())
	}
	sessions, err := n.Do(ctx, n.B().Zrange().Key(p+"ses").Min("0").Max("-1").Withscores().Build()).AsZScores()
	hide("sessions", err)
	e.Sessions = len(sessions)
	for _, s := range sessions {
		ttl := script.TTL(s.Member)
		if ttl > 0 && now-s.Score > float64(3*ttl.Microseconds()) {
			e.Stale++
		}
	}
	names, err := n.Do(ctx, n.B().Zrange().Key(p+"names").Min("0").Max("-1").Build()).AsStrSlice()
	hide("queues", err)
	e.Queues = len(names)
	for some := range slices.Chunk(names, batch) {
		var ask rueidis.Commands
		for _, q := range some {
			ask = append(ask, n.B().Zcard().Key(p+"q:"+q).Build(), n.B().Hlen().Key(p+"r:"+q).Build())
		}
		for i, r := range n.DoMulti(ctx, ask...) {
			count, err := r.AsInt64()
			switch {
			case err != nil && i%2 == 1 && call.ServerError(err) != nil:
				e.Records = -1 // no right that a program needs
			case err != nil:
				hide("entries", err)
				return
			case i%2 == 0:
				e.Entries += int(count)
			case e.Records >= 0:
				e.Records += int(count)
			}
		}
	}
}

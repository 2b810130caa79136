package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/session"
)

// texts returns the levels and texts of findings.
func texts(all []schema.Finding) []string {
	var out []string
	for _, f := range all {
		out = append(out, f.Level+": "+f.Text)
	}
	return out
}

// queue returns a queue of exclusive entries.
func queue(name string, entries ...schema.Entry) schema.Queue {
	l := schema.NewQueue(name)
	for i, e := range entries {
		e.Place, e.Mode = i+1, "exclusive"
		if e.State == "" {
			e.State = schema.Waiter
		}
		l.Entries = append(l.Entries, e)
	}
	return l
}

func TestRoundTripsAreJudgedByTheWindow(t *testing.T) {
	ms := time.Millisecond
	for worst, want := range map[time.Duration]string{9 * ms: schema.Good, 1400 * ms: schema.Warn, 3500 * ms: schema.Bad} {
		f := RoundTrip([]time.Duration{worst, ms, 2 * ms}, 15*time.Second, 1500*ms)

		assert.Equal(t, want, f.Level)
		assert.Contains(t, f.Text, "a read takes 2ms, at worst "+short(worst)+"; the trust window is 13.5s")
	}
}

func TestClocksThatDiffer(t *testing.T) {
	now := time.Date(2026, 11, 20, 17, 0, 0, 0, time.UTC)
	at := func(host string, ago time.Duration) schema.Entry {
		return schema.Entry{Host: host, Since: schema.At(now.Add(-ago))}
	}

	assert.Equal(t, []string{"ok: no clock is seen to be wrong"},
		texts(Clocks([]schema.Queue{queue("a", at("w1", time.Hour), at("w2", time.Minute), at("w1", -time.Second), schema.Entry{})}, now)))
	assert.Equal(t, []string{"warning: the clock of w1 is ahead of this machine's by 1m0s or more"},
		texts(Clocks([]schema.Queue{queue("a", at("w1", -time.Minute))}, now)))
	assert.Equal(t, []string{"warning: w2 is behind w1 in a queue, and recorded that it asked 30s earlier: their clocks differ, or its request took that long"},
		texts(Clocks([]schema.Queue{queue("a", at("w1", time.Minute), at("w2", 90*time.Second)), queue("b", at("w3", time.Hour))}, now)))
}

func TestForeignAndUnleasedEntries(t *testing.T) {
	foreign, stays := schema.Entry{Foreign: true, Key: "a/x"}, schema.Entry{Foreign: true, Unleased: true, Key: "a/y"}

	assert.Equal(t, []string{"ok: 1 entry in 1 queue, all with a session and of this library"}, texts(Entries([]schema.Queue{queue("a", schema.Entry{})})))
	assert.Equal(t, []string{
		`problem: "a/y" in the queue of "a" has no session: it never expires`,
		`warning: 1 of 3 entries in the queue of "a" are another program's`,
	}, texts(Entries([]schema.Queue{queue("a", schema.Entry{}, foreign, stays)})))
}

func TestTokensThatWentBackwards(t *testing.T) {
	tok := func(n int64) schema.Entry { return schema.Entry{Token: n} }

	assert.Equal(t, []string{"ok: tokens rise in every queue"}, texts(Tokens([]schema.Queue{queue("a", tok(5), tok(0), tok(9)), queue("b", tok(1))})))
	assert.Equal(t, []string{`problem: in the queue of "a" token 5 is behind token 9`}, texts(Tokens([]schema.Queue{queue("a", tok(9), tok(5), tok(7))})))
}

// deadlocked returns the queues of two callers that wait for each other, and one behind.
func deadlocked(token int64) []schema.Queue {
	one := func(host string, token int64, holds ...string) schema.Entry {
		return schema.Entry{Host: host, PID: 7, Session: host, Token: token, Holds: holds}
	}
	held := func(e schema.Entry) schema.Entry {
		e.State = schema.Holder
		return e
	}
	return []schema.Queue{
		queue("a", held(one("w1", 1)), one("w2", token, "b"), one("w3", 9)),
		queue("b", held(one("w2", 2)), one("w1", 4, "a")),
	}
}

func TestADeadlockIsInTwoReads(t *testing.T) {
	all := Deadlocks(deadlocked(3), deadlocked(3))

	assert.Equal(t, []string{`problem: w2 pid 7 holds "b" and waits for "a", w1 pid 7 holds "a" and waits for "b"; 1 more wait behind them`}, texts(all))
	assert.Equal(t, []string{"b", "a"}, all[0].Names)
	for _, other := range [][]schema.Queue{nil, deadlocked(5)} { // no cycle, or one of another request
		assert.Equal(t, []string{"ok: no callers wait for each other, as far as they reported what they hold"}, texts(Deadlocks(other, deadlocked(3))))
	}
}

func TestAQueueThatCannotBeReadIsAFinding(t *testing.T) {
	st := membackend.New()
	memtest.PutForeign(st, "gpu", "k", true)
	memtest.PutForeign(st, "jobs", "k", false)
	s, err := session.Engine(door.Key{}).Open(t.Context(), memtest.FailReads(st.NewClient().Backend(), func(queue string) error {
		if queue == "gpu" {
			return session.ErrRefused
		}
		return nil
	}), nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	var found []schema.Finding

	require.NoError(t, queues(t.Context(), s, "", func(f schema.Finding) { found = append(found, f) }))

	all := strings.Join(texts(found), "\n")
	assert.Contains(t, all, `problem: session: queue "gpu": refused by the service`)
	assert.Contains(t, all, `"jobs"`, "the others are examined")
}

func TestFindingsFromTheStatusOfEtcd(t *testing.T) {
	status := func(edit func(*etcdserverpb.StatusResponse)) *clientv3.StatusResponse {
		s := &etcdserverpb.StatusResponse{Version: "3.7.3", Leader: 7, RaftTerm: 2, DbSize: 10 << 20, DbSizeQuota: 100 << 20}
		edit(s)
		return (*clientv3.StatusResponse)(s)
	}

	assert.Equal(t, []string{"ok: h:1 is well: etcd 3.7.3, 10 MB, term 2"}, texts(judgeMember("h:1", status(func(*etcdserverpb.StatusResponse) {}), nil)))
	assert.Equal(t, []string{
		"problem: h:1 knows of no leader",
		"problem: the database of h:1 has 90 MB of its quota of 100",
		"problem: h:1 reports: the disk is on fire",
	}, texts(judgeMember("h:1", status(func(s *etcdserverpb.StatusResponse) {
		s.Leader, s.DbSize = 0, 90<<20
		s.Errors = []string{"etcdserver: no leader", "memberID:1 alarm:NOSPACE", "the disk is on fire"}
	}), nil)))
	assert.Equal(t, []string{"warning: h:1 does not report its status to this user"}, texts(judgeMember("h:1", nil, rpctypes.ErrGRPCPermissionDenied)))
	assert.Equal(t, []string{"problem: h:1 does not report its status: connection refused"},
		texts(judgeMember("h:1", nil, errors.New("connection refused"))))
}

func TestFindingsFromTheStatusOfZooKeeper(t *testing.T) {
	well := "Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022\nLatency min/avg/max: 0/1.5/9\nReceived: 4\nOutstanding: 2\nZxid: 0x5\nMode: leader\n"
	for _, c := range []struct {
		answer string
		err    error
		want   string
		leads  bool
	}{
		{well, nil, "ok: h:1 is well: ZooKeeper 3.8.0, leader, latency min/avg/max 0/1.5/9 ms, 2 outstanding", true},
		{"This ZooKeeper instance is not currently serving requests\n", nil, "problem: h:1 serves no client: it has no quorum", false},
		{"srvr is not executed because it is not in the whitelist.\n", nil, "ok: h:1 does not report its status (4lw.commands.whitelist has no srvr)", false},
		{"", errors.New("connection refused"), "problem: h:1 does not report its status: connection refused", false},
		{"", nil, "problem: h:1 closes connections without an answer", false},
		{"HTTP/1.1 400 Bad Request\r\n", nil, `problem: h:1 answers srvr with "HTTP/1.1 400 Bad Request\r\n", which is not ZooKeeper's`, false},
	} {
		f, leads := judgeServer("h:1", c.answer, c.err)

		assert.Equal(t, []string{c.want}, texts([]schema.Finding{f}))
		assert.Equal(t, c.leads, leads)
	}
}

// primary returns the report of a server without findings.
func primary(edit func(*pgbackend.Report)) pgbackend.Report {
	r := pgbackend.Report{
		Version: "15.18", System: "7", TLS: "TLS 1.3", Listens: true, Connections: 5, MaxConnections: 100, Fsync: true, FullPageWrites: true,
		SynchronousCommit: true, Autovacuum: true, Schema: "fairlock", Layout: 1, MaxTTL: time.Minute, Life: "7:1", Stored: "7:1", Sessions: 2, Entries: 1, Size: 3e6,
	}
	edit(&r)
	return r
}

func TestFindingsFromTheReportsOfPostgres(t *testing.T) {
	const well = "ok: h:1 is well: PostgreSQL 15.18, primary, 5 of 100 connections, TLS 1.3"
	const alone = "ok: exclusion, order and tokens always: one server"
	const tables = "ok: version 1, greatest TTL 1m0s, 2 sessions, 1 entry, 0 records, 3.0 MB, 0 dead rows"
	for name, c := range map[string]struct {
		edit func(*pgbackend.Report)
		want []string
	}{
		"well": {func(*pgbackend.Report) {}, []string{well, alone, tables}},
		"asynchronous": {
			func(r *pgbackend.Report) {
				r.Copies, r.Standbys = 2, []pgbackend.Standby{{Name: "s1"}, {Name: "s2", Behind: 3 * time.Second}}
			},
			[]string{
				well, "warning: exclusion until the primary splits, order until data is lost, tokens until the primary splits: no commit waits for the 2 standbys",
				`warning: standby "s2" is 3s behind`, tables,
			},
		},
		"synchronous": {
			func(r *pgbackend.Report) { r.Copies, r.Awaited, r.Standbys = 1, 1, make([]pgbackend.Standby, 1) },
			[]string{well, "ok: exclusion, order and tokens always: each commit waits for the standby", tables},
		},
		"a majority": {
			func(r *pgbackend.Report) { r.Copies, r.Awaited, r.Standbys = 2, 1, make([]pgbackend.Standby, 2) },
			[]string{well, "ok: exclusion always, order until data is lost, tokens always: each commit waits for 1 of 2 standbys", tables},
		},
		"no standby there": {
			func(r *pgbackend.Report) { r.Copies, r.Awaited = 1, 1 },
			[]string{
				well, "ok: exclusion, order and tokens always: each commit waits for the standby",
				"problem: each commit waits for 1 standby, and 0 are connected", tables,
			},
		},
		"not durable": {
			func(r *pgbackend.Report) { r.Fsync, r.FullPageWrites = false, false },
			[]string{
				well, "problem: exclusion until data is lost, order until data is lost, tokens until data is lost: fsync is off",
				"warning: full_page_writes is off: a crash of the machine can damage the data", tables,
			},
		},
		"full": {
			func(r *pgbackend.Report) { r.Connections = 95 },
			[]string{"warning: h:1 has 95 of at most 100 connections", alone, tables},
		},
		"no tables": {
			func(r *pgbackend.Report) { r.Layout = 0 },
			[]string{well, alone, `problem: there are no tables in schema "fairlock"`},
		},
		"hidden tables": {
			func(r *pgbackend.Report) {
				r.Layout, r.Hidden, r.Missing = 0, []string{"tables: permission denied for schema fairlock"}, []string{"USAGE on schema fairlock"}
			},
			[]string{well, alone, "warning: this login may not see all: tables: permission denied for schema fairlock", "problem: this login lacks USAGE on schema fairlock"},
		},
		"a reader": {
			func(r *pgbackend.Report) {
				r.Missing = []string{"INSERT on entry", "UPDATE on entry", "DELETE on entry", "SELECT on place"}
			},
			[]string{well, alone, "warning: this login may read the queues, and not lock: it lacks INSERT on entry, UPDATE on entry, DELETE on entry, and 1 more"},
		},
		"one privilege": {
			func(r *pgbackend.Report) { r.Missing = []string{"DELETE on void"} },
			[]string{well, alone, "problem: this login lacks DELETE on void"},
		},
		"failed over": {
			func(r *pgbackend.Report) { r.Life = "7:2" },
			[]string{well, alone, "problem: the server has failed over or its data was replaced: nothing is granted for another 1m0s"},
		},
		"quarantine": {
			func(r *pgbackend.Report) { r.Life, r.Counted = "7:2", 20*time.Second },
			[]string{well, alone, "problem: the server has failed over or its data was replaced: nothing is granted for another 40s"},
		},
		"slow": {
			func(r *pgbackend.Report) {
				r.OldestTransaction, r.OldestBy, r.DeadRows, r.DeadIn, r.Stale, r.Listens = time.Hour, "report", 200_000, "entry", 2, false
			},
			[]string{
				well, alone, `warning: a transaction of "report" is open for 1h0m0s`, "warning: 200000 rows are dead and not removed, most of them in table entry",
				"warning: 2 sessions were not renewed for three times the TTL", "warning: notifications do not arrive",
			},
		},
		"clock": {
			func(r *pgbackend.Report) { r.Clock, r.Within = -5*time.Second, time.Second },
			[]string{well, alone, tables, "warning: the clock of h:1 is behind this machine's by 5s"},
		},
		"clock, not known": {func(r *pgbackend.Report) { r.Clock, r.Within = -5*time.Second, 4*time.Second }, []string{well, alone, tables}},
	} {
		assert.Equal(t, c.want, texts(judgePostgres([]server{{host: "h:1", report: primary(c.edit)}}, true)), name)
	}
}

func TestFindingsFromSeveralServersOfPostgres(t *testing.T) {
	one := server{host: "h:1", report: primary(func(r *pgbackend.Report) {
		r.Copies, r.Awaited, r.SynchronousStandbyNames, r.Standbys = 1, 1, "s1", make([]pgbackend.Standby, 1)
	})}
	standby := server{host: "h:2", report: primary(func(r *pgbackend.Report) { r.Standby, r.TLS = true, "" })}
	other := func(system string) server {
		return server{host: "h:3", report: primary(func(r *pgbackend.Report) { r.System = system })}
	}
	silent := server{host: "h:4", err: "connection refused"}

	assert.Equal(t, []string{
		"ok: h:1 is well: PostgreSQL 15.18, primary, 5 of 100 connections, TLS 1.3",
		"ok: h:2 is well: PostgreSQL 15.18, standby, 5 of 100 connections, no TLS",
		"problem: h:4 does not report its status: connection refused",
		"ok: exclusion, order and tokens always: each commit waits for the standby",
		`warning: h:2 has no synchronous_standby_names, and the primary has "s1"`,
		"ok: version 1, greatest TTL 1m0s, 2 sessions, 1 entry, 0 records, 3.0 MB, 0 dead rows",
	}, texts(judgePostgres([]server{one, standby, silent}, true)))
	assert.Contains(t, texts(judgePostgres([]server{one, other("7")}, true)), "problem: h:1 and h:3 are both primaries: each grants the same locks")
	assert.Contains(t, texts(judgePostgres([]server{one, other("8")}, true)), "problem: h:1 and h:3 are servers of two databases")
	assert.Equal(t, []string{"problem: h:4 does not report its status: connection refused"}, texts(judgePostgres([]server{silent}, true)))
}

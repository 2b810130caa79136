package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// openOn opens a session that is closed with the test.
func openOn(t *testing.T, s setup) *session.Session {
	t.Helper()
	opened, err := pgbackend.Dial(t.Context(), s.server.URL(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, opened.Close()) })
	return opened
}

// eventually returns when a query returns true.
func eventually(t *testing.T, s setup, sql string) {
	t.Helper()
	hang.Until(t, func() bool {
		ok, err := pgtest.Value[bool](t.Context(), s.server, sql)
		return err == nil && ok
	}, "%s", sql)
}

// A join that took the lock of the queue first would stop the queue while it waits for the fence.
func TestAJoinLocksTheFenceBeforeTheQueue(t *testing.T) {
	t.Parallel()
	s := newSetup(t, nil)
	lock := mutex.New(openOn(t, s), "q")
	tx, err := s.server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "select from fairlock.member for update")
	require.NoError(t, err)

	granted := make(chan error, 1)
	go func() {
		hold, err := lock.Lock(t.Context())
		if err == nil {
			err = hold.Unlock()
		}
		granted <- err
	}()

	eventually(t, s, "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock'")
	n, err := pgtest.Value[int](t.Context(), s.server, "select count(*) from pg_locks where locktype = 'advisory'")
	require.NoError(t, err)
	assert.Zero(t, n, "the lock of the queue")
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-granted)
}

// The waiters of the session that leaves need no notice. The one of another session needs one,
// also behind more of them than the statement looks at.
func TestALeaveNotifiesOnlyOtherSessions(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 3, 120} {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprint(n, " own behind, another session: ", other), func(t *testing.T) {
				t.Parallel()
				s := newSetup(t, nil)
				own := openDriver(t, s, nil)
				first := join(t, own)
				for range n {
					join(t, own)
				}
				if other {
					join(t, openDriver(t, s, nil))
				}
				conn := s.server.Conn(t)
				listen(t, s, conn, first.Place)

				left, err := own.Leave(t.Context(), driver.LeaveRequest{Ref: first})

				require.NoError(t, err)
				require.Equal(t, []driver.Left{driver.Deleted}, left)
				_, err = conn.Exec(t.Context(), "notify last")
				require.NoError(t, err)
				notice, err := conn.WaitForNotification(t.Context())
				require.NoError(t, err)
				assert.Equal(t, other || n >= 100, notice.Channel != "last", "it was notified: %s", notice.Channel)
			})
		}
	}
}

// The short form of a leave takes no fence: the row of the entry orders it and the end of the
// session, whichever has it first.
func TestALeaveAndTheEndOfItsSessionWaitForEachOther(t *testing.T) {
	t.Parallel()
	const waits = "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock' and backend_type = 'client backend'"
	s := newSetup(t, nil)

	// The end has deleted the entry, and is not committed.
	own := openDriver(t, s, nil)
	ref := join(t, own)
	tx, err := s.server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	for _, table := range []string{"session", "member", "entry"} {
		_, err = tx.Exec(t.Context(), "delete from fairlock."+table)
		require.NoError(t, err)
	}
	left := make(chan []driver.Left, 1)
	go func() {
		l, err := own.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
		assert.NoError(t, err)
		left <- l
	}()
	eventually(t, s, waits+` and query like '%delete from "fairlock"."entry" e where queue%'`) // a renewal waits too
	require.NoError(t, tx.Commit(t.Context()))
	assert.Equal(t, []driver.Left{driver.WasGone}, <-left, "it grants no other waiter of the session")

	// A leave has deleted the entry, and is not committed.
	own = openDriver(t, s, nil)
	join(t, own)
	tx, err = s.server.Conn(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "delete from fairlock.entry")
	require.NoError(t, err)
	closed := make(chan error, 1)
	go func() { closed <- own.Close(t.Context()) }()
	eventually(t, s, waits)
	n, err := pgtest.Value[int](t.Context(), s.server, "select count(*) from fairlock.member")
	require.NoError(t, err)
	assert.Equal(t, 1, n, "the session lives until the leave is committed")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-closed)
}

// While a snapshot is open, the rows of entries that are gone stay. The planner, which knows only how
// few rows live, could choose to read all those of a session.
func TestAnOpenSnapshotDoesNotSlowTheNextLocksDown(t *testing.T) {
	t.Parallel()
	const gone, cycles = 3000, 10
	s := newSetup(t, nil)
	own := openDriver(t, s, nil)
	first := join(t, own)
	tx, err := s.server.Conn(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "select from fairlock.entry")
	require.NoError(t, err)
	for _, sql := range []string{
		fmt.Sprint("insert into fairlock.entry (queue, place, session, call, mode, weight, valued) ",
			"select queue, n, session, n, mode, weight, valued from fairlock.entry, generate_series(1, ", gone, ") n"),
		fmt.Sprint("delete from fairlock.entry where place <= ", gone),
		"analyze fairlock.entry",
	} {
		require.NoError(t, s.server.Exec(t.Context(), sql))
	}
	const sums = "select sum(%s)::integer from pg_stat_user_indexes where relname = 'entry'"
	sum := func(column string) int {
		n, err := pgtest.Value[int](t.Context(), s.server, fmt.Sprintf(sums, column))
		require.NoError(t, err)
		return n
	}
	// A process of the server reports what it has read when it is idle, at most once a second.
	hang.Until(t, func() bool { return sum("idx_tup_read") >= gone/2 || sum("idx_scan") > 0 }, "the statistics")
	read, scans := sum("idx_tup_read"), sum("idx_scan")

	left, err := own.Leave(t.Context(), driver.LeaveRequest{Ref: first})
	require.NoError(t, err)
	require.Equal(t, []driver.Left{driver.Deleted}, left)
	for range cycles {
		_, err := own.Leave(t.Context(), driver.LeaveRequest{Ref: join(t, own)})
		require.NoError(t, err)
	}

	hang.Until(t, func() bool { return sum("idx_scan") >= scans+2*cycles }, "the statistics")
	assert.Less(t, sum("idx_tup_read")-read, gone, "rows were read")
	require.NoError(t, tx.Rollback(t.Context()))
}

// Where a standby is promoted, no entry of before counts. So it need not have a release.
func TestAReleaseDoesNotWaitForAStandby(t *testing.T) {
	t.Parallel()
	s := newSetup(t, nil)
	standby, err := s.server.Standby(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, s.server.Set(t.Context(), "synchronous_standby_names", standby.Name()))
	own := openDriver(t, s, nil)
	ref := join(t, own)
	require.NoError(t, standby.Pause())

	var left []driver.Left
	over := make(chan error, 1)
	go func() {
		var err error
		left, err = own.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
		over <- err
	}()
	const waits = "select count(*) > 0 from pg_stat_activity where wait_event = 'SyncRep' and query like 'delete from%entry%'"
	hang.Until(t, func() bool {
		waiting, err := pgtest.Value[bool](t.Context(), s.server, waits)
		assert.False(t, err == nil && waiting, "the release waits")
		return len(over) > 0 || t.Failed()
	}, "the release")

	require.NoError(t, standby.Resume())
	require.NoError(t, <-over)
	require.Equal(t, []driver.Left{driver.Deleted}, left)
}

// openDriver opens a session that watches nothing.
func openDriver(t *testing.T, s setup, opts *pgbackend.Options) driver.Session {
	t.Helper()
	b, err := pgbackend.DialBackend(s.server.URL(), opts)
	require.NoError(t, err)
	opened, err := b.Open(t.Context(), driver.Config{
		TTL: 20 * time.Second, Margin: b.Info().Margin, Logger: slog.New(slog.DiscardHandler),
		Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, opened.Close(context.WithoutCancel(t.Context())))
		assert.NoError(t, b.Close())
	})
	return opened
}

// join makes an entry in queue "q".
func join(t *testing.T, s driver.Session) driver.Ref {
	t.Helper()
	joined, err := s.Join(t.Context(), driver.JoinRequest{Queue: "q", Nearest: 1})
	require.NoError(t, err)
	return joined[0].Entry.Ref
}

// listen listens for the notices about one entry of queue "q", and on channel last.
func listen(t *testing.T, s setup, conn *pgx.Conn, place int64) {
	t.Helper()
	var name string
	err := conn.QueryRow(t.Context(), "select "+channel, pgbackend.DefaultRoot+"\x01qq", secretOf(t, s)).Scan(&name)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), fmt.Sprintf("listen %s_%d; listen last", name, place))
	require.NoError(t, err)
}

func secretOf(t *testing.T, s setup) string {
	t.Helper()
	secret, err := pgtest.Value[string](t.Context(), s.server, "select secret from fairlock.meta")
	require.NoError(t, err)
	return secret
}

// The short statements do nothing where the long ones show why.
func TestAJoinAfterItsSessionIsOverIsMadeByANewOne(t *testing.T) {
	t.Parallel()
	s := newSetup(t, nil)
	own := openOn(t, s)
	require.NoError(t, s.server.Exec(t.Context(), "delete from fairlock.member"))

	hold, err := mutex.New(own, "q").Lock(hang.Context(t))

	require.NoError(t, err, "a new session is opened")
	n, err := pgtest.Value[int](t.Context(), s.server, "select count(*) from fairlock.entry join fairlock.member on id = session")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	require.NoError(t, hold.Unlock())
}

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

package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/pgbackend/internal/fakepg"
	"github.com/fairlock/fairlock/session/driver"
)

func TestEachSQLSTATEHasAnOutcome(t *testing.T) {
	s := &Sender{Refused: "run the command"}
	for code, want := range map[string]struct {
		outcome outcome
		err     error
	}{
		"28000": {incurable, driver.ErrDenied}, "28P01": {incurable, driver.ErrDenied}, "42501": {incurable, driver.ErrDenied},
		"57P01": {unclear, nil}, "57P02": {unclear, nil}, "08006": {unclear, nil}, "08P01": {unclear, nil},
		"42P01": {incurable, driver.ErrRefused}, "3F000": {incurable, driver.ErrRefused}, "42703": {incurable, driver.ErrRefused},
		"26000": {incurable, driver.ErrRefused}, "3D000": {incurable, driver.ErrRefused}, "42702": {incurable, driver.ErrRefused},
		"22003": {incurable, driver.ErrRefused}, "23505": {incurable, driver.ErrRefused}, "0A000": {incurable, driver.ErrRefused},
		"40001": {notDone, nil}, "40P01": {notDone, nil}, "55P03": {notDone, nil}, "57014": {notDone, nil}, "53100": {notDone, nil},
		"53300": {notDone, nil}, "25006": {notDone, nil}, "57P03": {notDone, nil}, "XX000": {notDone, nil}, "25P03": {notDone, nil},
	} {
		outcome, err := s.judge(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}))
		assert.Equal(t, want.outcome, outcome, code)
		if want.err != nil {
			require.ErrorIs(t, err, want.err, code)
		}
		assert.Equal(t, want.err != nil, driver.Incurable(err), code)
	}
	_, err := s.judge(&pgconn.PgError{Code: "42P01"})
	require.ErrorContains(t, err, "run the command")
}

func TestErrorsOfTheClientHaveAnOutcome(t *testing.T) {
	s := &Sender{}
	for want, errs := range map[outcome][]error{
		done:       {nil},
		notDone:    {ErrNotIsolated, fmt.Errorf("%w: no connection", errNotSent)},
		unclear:    {errors.New("connection reset"), context.DeadlineExceeded},
		incurable:  {puddle.ErrClosedPool, fmt.Errorf("%w: %w", errNotSent, errShut)},
		unreadable: {fmt.Errorf("%w: a text", ErrUnreadable)},
	} {
		for _, err := range errs {
			got, _ := s.judge(err)
			assert.Equal(t, want, got, "%v", err)
		}
	}
}

// sender is a Sender on one connection of a server that answers as a test wants.
type sender struct {
	*Sender
	server *fakepg.Server

	mu    sync.Mutex
	texts []string
	at    []time.Duration // since the start
}

const work = "select work"

// newSender returns a sender to a server that answers its n-th request, from 0 on, by answer.
func newSender(t *testing.T, answer func(n int) fakepg.Reply) *sender {
	t.Helper()
	began, n := time.Now(), 0
	s := &sender{Sender: &Sender{Clock: fakepg.NewClock(), Over: t.Context(), Explicit: new(atomic.Bool)}}
	s.server = &fakepg.Server{Answer: func(_ *fakepg.Conn, sql string, _ []string) fakepg.Reply {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.texts = append(s.texts, sql)
		if sql != work {
			return fakepg.Reply{Tag: "OK"}
		}
		s.at = append(s.at, time.Since(began))
		n++
		return answer(n - 1)
	}}
	l := &Line{Dial: func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, s.server.Config()) }}
	s.Conns = l
	t.Cleanup(func() {
		l.Close()
		<-time.After(time.Minute) // connections that were given up are closed by then
	})
	return s
}

// request is a statement that returns a number, or false where its transaction is not READ COMMITTED.
func request(got *int64) Request {
	return Request{
		Op:    fault.Join,
		Queue: func(b *pgx.Batch, _ int) { b.Queue(work) },
		Scan: func(r pgx.BatchResults) error {
			err := r.QueryRow().Scan(got)
			if err == nil && *got < 0 {
				return ErrNotIsolated
			}
			return err
		},
	}
}

// What is silent is given up later each time: a slow server must not be made slower.
func TestAttemptsThatAreNotAnsweredTakeLongerAndLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, func(n int) fakepg.Reply {
			if n < 5 {
				return fakepg.Reply{Silent: true}
			}
			return fakepg.Rows(7)
		})
		var got int64
		unknown, err := s.Do(t.Context(), request(&got))

		require.NoError(t, err)
		assert.True(t, unknown, "an earlier attempt may have been carried out")
		assert.EqualValues(t, 7, got)
		require.Len(t, s.at, 6)
		for i, seconds := range []int{2, 4, 8, 10, 10} {
			least := time.Duration(seconds) * time.Second
			took := s.at[i+1] - s.at[i]
			assert.GreaterOrEqual(t, took, least, "attempt %d", i)
			assert.Less(t, took, least+2*closing+300*time.Millisecond, "attempt %d", i)
		}
		assert.Equal(t, 6, s.server.Logins(), "each costs its connection")
	})
}

func TestAnAttemptHasTimeForWhatItSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, func(n int) fakepg.Reply {
			if n == 0 {
				return fakepg.Reply{Silent: true}
			}
			return fakepg.Rows(7)
		})
		var got int64
		r := request(&got)
		r.Size = 1 << 20
		_, err := s.Do(t.Context(), r)

		require.NoError(t, err)
		assert.GreaterOrEqual(t, s.at[1]-s.at[0], firstTimeout+4*time.Second)
	})
}

// The time that a connection takes is not the attempt's.
func TestAnAttemptCountsFromItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, func(int) fakepg.Reply { return fakepg.Rows(7) })
		line := s.Conns.(*Line) //nolint:forcetypeassert // see newSender
		_, release, err := line.Acquire(t.Context())
		require.NoError(t, err)
		time.AfterFunc(3*firstTimeout, release)
		var got int64
		unknown, err := s.Do(t.Context(), request(&got))

		require.NoError(t, err)
		assert.False(t, unknown)
		assert.Len(t, s.at, 1)
		assert.Equal(t, 1, s.server.Logins())
	})
}

func TestWhatTheServerRefusesForAMomentIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		codes := []string{"55P03", "40001", "53300"}
		s := newSender(t, func(n int) fakepg.Reply {
			if n < len(codes) {
				return fakepg.Reply{Code: codes[n]}
			}
			return fakepg.Rows(7)
		})
		var got int64
		unknown, err := s.Do(t.Context(), request(&got))

		require.NoError(t, err)
		assert.False(t, unknown, "each was rolled back")
		assert.Len(t, s.at, len(codes)+1)
		assert.Equal(t, 1, s.server.Logins(), "the connection is as good as before")
	})
}

// The answer to the statement is not the end of the transaction.
func TestATransactionThatFailsAtItsEndWasNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, func(n int) fakepg.Reply {
			r := fakepg.Rows(n)
			if n < 2 {
				r.Late = "40001"
			}
			return r
		})
		var got int64
		_, err := s.Do(t.Context(), request(&got))

		require.NoError(t, err)
		assert.EqualValues(t, 2, got)
	})
}

func TestAnotherDefaultIsolationCostsOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, func(n int) fakepg.Reply { return fakepg.Rows(n - 1) })
		var got int64
		for range 2 {
			unknown, err := s.Do(t.Context(), request(&got))
			require.NoError(t, err)
			assert.False(t, unknown)
		}

		const begin = "begin isolation level read committed"
		assert.Equal(t, []string{work, begin, work, "commit", begin, work, "commit"}, s.texts)
		assert.Less(t, s.at[1], time.Millisecond, "without a pause")
	})
}

func TestARequestEndsWithItsContextAndItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, func(int) fakepg.Reply { return fakepg.Reply{Silent: true} })
		var got int64
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		unknown, err := s.Do(ctx, request(&got))
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.True(t, unknown, "the server may have got it")

		over, end := context.WithCancelCause(t.Context())
		s.Over = over
		time.AfterFunc(300*time.Millisecond, func() { end(driver.ErrSessionOver) })
		began := time.Now()
		unknown, err = s.Do(t.Context(), request(&got))
		require.ErrorIs(t, err, driver.ErrSessionOver)
		assert.True(t, unknown)
		assert.Less(t, time.Since(began), firstTimeout)
	})
}

// A Join that may have made its entry must not be taken for one that was refused.
func TestARefusalAfterAnUnansweredAttemptIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, func(n int) fakepg.Reply {
			if n == 0 {
				return fakepg.Reply{Break: true}
			}
			return fakepg.Reply{Code: "42501"}
		})
		var got int64
		unknown, err := s.Do(t.Context(), request(&got))

		assert.True(t, unknown)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		assert.False(t, driver.Incurable(err))
	})
}

// Another attempt would have the same answer. The transaction of this one may have been committed.
func TestAnAnswerThatCannotBeReadEndsTheRequest(t *testing.T) {
	for name, answer := range map[string]fakepg.Reply{
		"a text": fakepg.Rows("text"), "two columns": fakepg.Rows(1, 2), "no row": {Columns: 1}, "null": fakepg.Rows(nil),
	} {
		for op, want := range map[fault.Op]error{
			fault.Join: driver.ErrRefused, fault.Read: driver.ErrRefused, fault.Leave: driver.ErrUnavailable, fault.Update: driver.ErrUnavailable,
		} {
			for _, explicit := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					s := newSender(t, func(int) fakepg.Reply { return answer })
					s.Explicit.Store(explicit)
					var got int64
					r := request(&got)
					r.Op = op

					unknown, err := s.Do(t.Context(), r)

					assert.True(t, unknown, name)
					require.ErrorIs(t, err, want, "%s %s", name, op)
					require.ErrorIs(t, err, ErrUnreadable)
					assert.Equal(t, errors.Is(want, driver.ErrRefused), driver.Incurable(err))
					assert.Len(t, s.at, 1)
					assert.Equal(t, 1, s.server.Logins(), "the connection is good")
				})
			}
		}
	}
}

// A new entry would wait for an operator; a release goes through as soon as there is space.
func TestAFullDiskRefusesWhatIsNew(t *testing.T) {
	for op, refused := range map[fault.Op]bool{fault.Open: true, fault.Join: true, fault.Update: true, fault.Leave: false, fault.Close: false, fault.Settle: false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSender(t, func(n int) fakepg.Reply {
				if n == 0 {
					return fakepg.Reply{Code: "53100"}
				}
				return fakepg.Rows(7)
			})
			var got int64
			r := request(&got)
			r.Op = op

			unknown, err := s.Do(t.Context(), r)

			assert.False(t, unknown, "nothing was done")
			if refused {
				require.ErrorIs(t, err, driver.ErrRefused, op)
				require.ErrorContains(t, err, "53100")
				return
			}
			require.NoError(t, err, op)
		})
	}
}

// A test's hook may keep a request: what answers later must not write where the caller reads.
func TestALateAnswerIsNotScanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, func(n int) fakepg.Reply { return fakepg.Rows(n) })
		var late []func()
		s.Hook = func(ctx context.Context, _ fault.Op, send func(context.Context) error) error {
			if len(late) == 0 {
				late = append(late, func() { _ = send(context.WithoutCancel(ctx)) })
				return errors.New("broken")
			}
			return send(ctx)
		}
		got := int64(-7)
		_, err := s.Do(t.Context(), request(&got))
		require.NoError(t, err)
		require.EqualValues(t, 0, got)
		late[0]()
		assert.EqualValues(t, 0, got)
		assert.Len(t, s.at, 2)
	})
}

func TestAClosedLineRefusesForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, func(int) fakepg.Reply { return fakepg.Rows(7) })
		line := s.Conns.(*Line) //nolint:forcetypeassert // see newSender
		line.Close()
		var got int64
		_, err := s.Do(t.Context(), request(&got))
		require.ErrorIs(t, err, driver.ErrClosed)
		assert.Empty(t, s.texts)
	})
}

func TestALineMakesAConnectionAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, func(int) fakepg.Reply { return fakepg.Rows(7) })
		var got int64
		for range 3 {
			_, err := s.Do(t.Context(), request(&got))
			require.NoError(t, err)
			s.server.Cut()
		}
		assert.Equal(t, 3, s.server.Logins())
		assert.False(t, slices.Contains(s.texts, ""))
	})
}

func TestExplainNeverReturnsAnErrorOfTheServerAlone(t *testing.T) {
	require.ErrorIs(t, Explain(&pgconn.PgError{Code: "42501"}, ""), driver.ErrDenied)
	require.ErrorIs(t, Explain(&pgconn.PgError{Code: "42P01"}, "do this"), driver.ErrRefused)
	require.ErrorIs(t, Explain(&pgconn.PgError{Code: "53300"}, ""), driver.ErrUnavailable)
	require.ErrorIs(t, Explain(errors.New("no route"), ""), driver.ErrUnavailable)
}

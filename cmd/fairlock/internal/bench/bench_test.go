package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

func TestRunFindsNoViolationOnMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		open := func(ctx context.Context) (*session.Session, error) { return st.Open(ctx, nil) }

		b, err := Run(t.Context(), open, Options{Locks: 2, Clients: 5, Hold: 10 * time.Millisecond, Duration: time.Second})

		require.NoError(t, err)
		assert.InDelta(t, 200, b.Acquisitions, 10, "two locks, 100 holds of 10 ms each")
		assert.Zero(t, b.OrderViolations+b.Overlaps+b.Lost)
		assert.Greater(t, b.Fairness, 0.99)
		assert.Positive(t, b.HandOff.Count)
		assert.InDelta(t, float64(20*time.Millisecond), float64(b.Acquire.P50), float64(11*time.Millisecond), "one or two entries are ahead")
		s, err := st.Open(t.Context(), nil)
		require.NoError(t, err)
		names, err := s.Names(t.Context(), "")
		require.NoError(t, err)
		assert.Empty(t, names, "an entry is left in a queue")
		require.NoError(t, s.Close())
	})
}

func TestRunReturnsTheErrorOfASessionThatCannotBeOpened(t *testing.T) {
	st := membackend.New()
	n, errNo := 0, errors.New("no")
	open := func(ctx context.Context) (*session.Session, error) {
		if n++; n > 1 {
			return nil, errNo
		}
		return st.Open(ctx, nil)
	}
	only := Options{Locks: 1, Clients: 1, Duration: time.Millisecond}
	_, err := Run(t.Context(), open, only)
	require.NoError(t, err)

	_, err = Run(t.Context(), open, only)

	assert.ErrorIs(t, err, errNo)
	assert.Empty(t, st.Sessions())
}

// fake is a hold with a token.
type fake struct {
	token session.Token
	valid time.Duration
}

func (f *fake) Token() session.Token     { return f.token }
func (f *fake) Remaining() time.Duration { return f.valid }

func TestStatsCountViolations(t *testing.T) {
	const ms = driver.Instant(time.Millisecond)
	l := newStats("x", 2)
	a, b, c := &fake{token: 5, valid: 1}, &fake{token: 7, valid: 1}, &fake{token: 6, valid: 1}

	l.granted(0, a, 1*ms, 2*ms)
	l.releasing(a, 5*ms)
	l.released(nil)
	l.granted(1, b, 3*ms, 9*ms) // it waited: a hand-off of 4 ms
	assert.Zero(t, l.disorder+l.overlaps)
	l.granted(0, c, 10*ms, 11*ms) // while b holds, with a lower token
	b.valid = 0
	l.releasing(b, 12*ms) // its hold is no longer valid
	l.released(session.ErrLost)
	l.releasing(c, 13*ms)
	l.granted(1, &fake{token: 8}, 14*ms, 15*ms) // no client waited

	got := report(Options{Locks: 1, Clients: 2}, []*lockStats{l}, 2*time.Second)
	assert.Equal(t, []int64{4, 1, 1, 1}, []int64{got.Acquisitions, got.OrderViolations, got.Overlaps, got.Lost})
	assert.Equal(t, int64(1), got.HandOff.Count)
	assert.InDelta(t, float64(4*time.Millisecond), float64(got.HandOff.Max), float64(10*time.Microsecond))
	assert.InDelta(t, 2, got.PerSecond, 0.001)
	assert.Equal(t, schema.Seconds(2*time.Second), got.Duration)
}

func TestJain(t *testing.T) {
	assert.InDelta(t, 1, jain([]int64{3, 3, 3}), 1e-9)
	assert.InDelta(t, 1.0/4, jain([]int64{8, 0, 0, 0}), 1e-9)
	assert.InDelta(t, 0.9, jain([]int64{2, 4}), 1e-9)
	assert.InDelta(t, 1, jain([]int64{0, 0}), 1e-9)
}

func TestEveryClientHasALock(t *testing.T) {
	for _, o := range []Options{{Locks: 1, Clients: 1}, {Locks: 3, Clients: 10}, {Locks: 4, Clients: 4}, {Locks: 4, Clients: 7}} {
		locks, err := newLocks(o)
		require.NoError(t, err)
		clients := 0
		for _, l := range locks {
			clients += len(l.grants)
		}
		assert.Equal(t, o.Clients, clients)
		for i := range o.Clients {
			assert.Less(t, i/o.Locks, len(locks[i%o.Locks].grants))
		}
	}
}

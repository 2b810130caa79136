package mutex_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// named returns a Named whose locks are those of the host's names.
func named(s *session.Session) *mutex.Named {
	return mutex.NewNamed(func(name string) *mutex.Mutex { return mutex.New(s, "certs/"+name) })
}

// locks locks a name in a goroutine, and sends the result.
func locks(ctx context.Context, n *mutex.Named, name string) <-chan error {
	got := make(chan error, 1)
	go func() { got <- n.Lock(ctx, name) }()
	synctest.Wait()
	return got
}

func TestUnlockByNameAfterALossReleasesNoLaterHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		n, other := named(open(t, st, nil)), named(open(t, st, nil))
		require.NoError(t, n.Lock(t.Context(), "a"))
		first, ok := n.Hold("a")
		require.True(t, ok)
		require.True(t, st.Delete("certs/a", memtest.Entries(st, "certs/a")[0].Key))
		<-first.Context().Done()
		second := locks(t.Context(), n, "a")
		require.Empty(t, second, "the first has not unlocked")
		require.NoError(t, other.Lock(t.Context(), "a"), "other processes do not wait for it")
		require.NoError(t, other.Unlock(t.Context(), "a"))

		require.ErrorIs(t, n.Unlock(t.Context(), "a"), session.ErrLost)
		require.NoError(t, <-second)
		h, ok := n.Hold("a")
		require.True(t, ok)
		assert.Greater(t, h.Token(), first.Token())
		assert.NotZero(t, h.Remaining())
		require.ErrorIs(t, other.TryLock(t.Context(), "a"), session.ErrNotAcquired)
		require.NoError(t, n.Unlock(t.Context(), "a"))
		require.NoError(t, other.TryLock(t.Context(), "a"))
		require.NoError(t, other.Unlock(t.Context(), "a"))
	})
}

func TestCallersOfANameTakeTurnsInTheOrderOfTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		n := named(open(t, st, nil))
		require.NoError(t, n.Lock(t.Context(), "a"))
		var turns []<-chan error
		for range 20 {
			turns = append(turns, locks(t.Context(), n, "a"))
		}
		assert.Len(t, memtest.Entries(st, "certs/a"), 1, "one entry for all of them")
		require.NoError(t, n.Lock(t.Context(), "b"), "another name")

		for i, turn := range turns {
			require.NoError(t, n.Unlock(t.Context(), "a"))
			require.NoError(t, <-turn)
			for _, later := range turns[i+1:] {
				require.Empty(t, later)
			}
		}
		require.NoError(t, n.Unlock(t.Context(), "a"))
		require.NoError(t, n.Unlock(t.Context(), "b"))
	})
}

func TestCallerThatGivesUpIsNotInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		var outcomes []session.Outcome
		s := open(t, st, &session.Options{Hooks: session.Hooks{Ended: func(_ context.Context, e session.Event) {
			outcomes = append(outcomes, e.Outcome)
		}}})
		n := named(s)
		require.NoError(t, n.Lock(t.Context(), "a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := n.Lock(ctx, "a")
		require.ErrorIs(t, err, session.ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `"certs/a"`)
		ctx, cancel = context.WithCancel(t.Context())
		second, third := locks(ctx, n, "a"), locks(t.Context(), n, "a")
		cancel()
		require.ErrorIs(t, <-second, context.Canceled)

		require.NoError(t, n.Unlock(t.Context(), "a"))
		require.NoError(t, <-third)
		require.NoError(t, n.Unlock(t.Context(), "a"))
		require.NoError(t, n.TryLock(t.Context(), "a"))
		require.NoError(t, n.Unlock(t.Context(), "a"))
		synctest.Wait()
		assert.Equal(t, []session.Outcome{
			session.OutcomeGranted, session.OutcomeGaveUp, session.OutcomeGaveUp, session.OutcomeGranted, session.OutcomeGranted,
		}, outcomes)
	})
}

func TestTryLockByNameNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		n, other := named(open(t, c, nil)), named(open(t, st, nil))
		require.NoError(t, other.Lock(t.Context(), "a"))
		require.ErrorIs(t, n.TryLock(t.Context(), "a"), session.ErrNotAcquired)
		waits := locks(t.Context(), n, "a")
		before := c.Requests()
		require.ErrorIs(t, n.TryLock(t.Context(), "a"), session.ErrNotAcquired, "another caller is locking it")
		require.NoError(t, other.Unlock(t.Context(), "a"))
		require.NoError(t, <-waits)
		err := n.TryLock(t.Context(), "a")
		require.ErrorIs(t, err, session.ErrNotAcquired)
		assert.EqualError(t, err, `mutex: try lock "certs/a": by this process already: not acquired`)
		assert.Equal(t, before, c.Requests(), "a refusal sends nothing")
		require.NoError(t, n.Unlock(t.Context(), "a"))
	})
}

func TestUnlockByNameReportsWhatItFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		n := named(open(t, c, nil))
		err := n.Unlock(t.Context(), "a")
		require.ErrorIs(t, err, session.ErrUnlocked)
		require.ErrorContains(t, err, `"a"`)
		_, ok := n.Hold("a")
		assert.False(t, ok)

		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, n.Lock(ctx, "a"))
		cancel()
		require.NoError(t, n.Unlock(ctx, "a"), "ctx bounds the wait of Lock only")
		require.ErrorIs(t, n.Unlock(ctx, "a"), session.ErrUnlocked)

		require.NoError(t, n.Lock(t.Context(), "a"))
		h, _ := n.Hold("a")
		c.Cut(fault.Both)
		unlocked := make(chan error, 1)
		go func() { unlocked <- n.Unlock(t.Context(), "a") }()
		synctest.Wait()
		require.Empty(t, unlocked)
		require.ErrorIs(t, n.Unlock(t.Context(), "a"), session.ErrUnlocked, "during the other Unlock")
		require.NoError(t, <-unlocked, "the session finishes the release")
		require.ErrorIs(t, h.Unlock(), session.ErrUnlocked, "it was pending, and no loss")
		c.Heal()
		require.NoError(t, n.Lock(t.Context(), "a"))
		require.NoError(t, n.Unlock(t.Context(), "a"))
	})
}

func TestLockInsideItsOwnNameIsReentrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		s := open(t, st, nil)
		n := mutex.NewNamed(func(name string) *mutex.Mutex {
			return mutex.NewWith(s, name, mutex.Options{Reentrant: true})
		})
		require.NoError(t, n.Lock(t.Context(), "a"))
		h, _ := n.Hold("a")
		require.ErrorIs(t, n.Lock(h.Context(), "a"), session.ErrReentrant)
		require.NoError(t, n.Lock(h.Context(), "b"))
		h, _ = n.Hold("b")
		require.ErrorIs(t, n.Lock(h.Context(), "a"), session.ErrReentrant, "an outer one")
		require.NoError(t, n.Unlock(t.Context(), "b"))
		require.NoError(t, n.Unlock(t.Context(), "a"))

		require.NoError(t, mutex.New(s, "a").Do(t.Context(), func(ctx context.Context, _ *session.Hold) error {
			require.ErrorIs(t, n.Lock(ctx, "a"), session.ErrReentrant, "a hold that is not the locker's")
			return nil
		}))
	})
}

func TestNameThatIsRefusedStaysUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, membackend.New(), nil)
		n := mutex.NewNamed(func(name string) *mutex.Mutex { return mutex.New(s, name) })
		require.ErrorIs(t, n.Lock(t.Context(), ""), session.ErrInvalidName)
		require.ErrorIs(t, n.TryLock(t.Context(), ""), session.ErrInvalidName)
		require.ErrorIs(t, n.Unlock(t.Context(), ""), session.ErrUnlocked)
	})
}

// A hook that panics ends the call, in the goroutine of the caller.
func TestPanicOfAHookLeavesTheNameUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := true
		s := open(t, membackend.New(), &session.Options{Hooks: session.Hooks{Started: func(ctx context.Context, _ session.Event) context.Context {
			if panics {
				panic("broken")
			}
			return ctx
		}}})
		n := named(s)
		assert.PanicsWithValue(t, "broken", func() { _ = n.Lock(t.Context(), "a") })
		panics = false
		require.NoError(t, n.Lock(t.Context(), "a"))
		require.NoError(t, n.Unlock(t.Context(), "a"))
	})
}

// Each of many names is locked, given up, refused and unlocked once.
func TestNamedKeepsNothingOfNamesThatNobodyUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := named(open(t, membackend.New(), nil))
		for i := range 100 {
			name := fmt.Sprint(i)
			require.NoError(t, n.Lock(t.Context(), name))
			ctx, cancel := context.WithCancel(t.Context())
			waits := locks(ctx, n, name)
			cancel()
			require.ErrorIs(t, <-waits, session.ErrNotAcquired)
			require.ErrorIs(t, n.TryLock(t.Context(), name), session.ErrNotAcquired)
			require.NoError(t, n.Unlock(t.Context(), name))
		}
		assert.Zero(t, mutex.NamesInUse(n))
	})
}

func TestRelockWaitsInTheTurnOfItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		n, other := named(open(t, c, nil)), named(open(t, st, nil))
		require.ErrorIs(t, n.Relock(t.Context(), "a"), session.ErrUnlocked)
		require.NoError(t, n.Lock(t.Context(), "a"))
		first, _ := n.Hold("a")
		before := c.Requests()
		require.NoError(t, n.Relock(t.Context(), "a"))
		assert.Equal(t, before, c.Requests(), "it is held")
		require.True(t, st.Delete("certs/a", memtest.Entries(st, "certs/a")[0].Key))
		<-first.Context().Done()
		require.NoError(t, other.Lock(t.Context(), "a"))
		next := locks(t.Context(), n, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, n.Relock(ctx, "a"), context.DeadlineExceeded)
		again := make(chan error, 1)
		go func() { again <- n.Relock(t.Context(), "a") }()
		synctest.Wait()

		require.NoError(t, other.Unlock(t.Context(), "a"))
		require.NoError(t, <-again)
		require.Empty(t, next, "the caller that has relocked goes first")
		h, ok := n.Hold("a")
		require.True(t, ok)
		assert.Greater(t, h.Token(), first.Token())
		require.NoError(t, n.Unlock(t.Context(), "a"))
		require.NoError(t, <-next)
		require.NoError(t, n.Unlock(t.Context(), "a"))
		assert.Empty(t, memtest.Entries(st, "certs/a"))
	})
}

func TestUnlockAfterARelockThatFailedReportsTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		n, other := named(open(t, st, nil)), named(open(t, st, nil))
		lose := func() {
			require.NoError(t, n.Lock(t.Context(), "a"))
			h, _ := n.Hold("a")
			require.True(t, st.Delete("certs/a", memtest.Entries(st, "certs/a")[0].Key))
			<-h.Context().Done()
			require.NoError(t, other.Lock(t.Context(), "a"))
		}
		lose()
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, n.Relock(ctx, "a"), context.DeadlineExceeded)
			cancel()
		}
		require.ErrorIs(t, n.Unlock(t.Context(), "a"), session.ErrLost)
		require.NoError(t, other.Unlock(t.Context(), "a"))

		lose() // and now Unlock is called during Relock
		again := make(chan error, 1)
		go func() { again <- n.Relock(t.Context(), "a") }()
		synctest.Wait()
		require.ErrorIs(t, n.Unlock(t.Context(), "a"), session.ErrLost)
		next := locks(t.Context(), n, "a")
		require.NoError(t, other.Unlock(t.Context(), "a"))
		require.ErrorIs(t, <-again, session.ErrUnlocked)
		require.NoError(t, <-next)
		require.NoError(t, n.Unlock(t.Context(), "a"))
		assert.Empty(t, memtest.Entries(st, "certs/a"))
	})
}

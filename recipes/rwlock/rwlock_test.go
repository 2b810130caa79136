package rwlock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// The package recipetest tests what readers and writers are promised, on every backend.
// These tests need no service.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryCallRefusesBadNamesAndClosedSessions(t *testing.T) {
	s, err := membackend.New().Open(t.Context(), nil)
	require.NoError(t, err)
	closed, err := membackend.New().Open(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	nothing := func(context.Context, *session.Hold) error {
		assert.Fail(t, "called without a lock")
		return nil
	}
	for _, c := range []struct {
		rw   *rwlock.RWLock
		want error
	}{
		{rwlock.New(s, ""), session.ErrInvalidName},
		{rwlock.New(s, strings.Repeat("x", 513)), session.ErrInvalidName},
		{rwlock.New(s, "\xff"), session.ErrInvalidName},
		{rwlock.New(s, "a\x00b"), session.ErrInvalidName},
		{rwlock.New(closed, "n"), session.ErrClosed},
	} {
		for op, call := range map[string]func(context.Context) (*session.Hold, error){
			"rlock": c.rw.RLock, "lock": c.rw.Lock, "try rlock": c.rw.TryRLock, "try lock": c.rw.TryLock,
		} {
			h, err := call(t.Context())
			require.ErrorIs(t, err, c.want, op)
			require.ErrorContains(t, err, "rwlock: "+op+" ", "it names the call")
			assert.Nil(t, h)
		}
		require.ErrorIs(t, c.rw.Do(t.Context(), nothing), c.want)
		require.ErrorIs(t, c.rw.RDo(t.Context(), nothing), c.want)
	}
	require.NoError(t, s.Close())
}

// denied is a service that grants no permission to change an entry.
type denied struct{ driver.Backend }

func (b denied) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.Backend.Open(ctx, cfg)
	return deniedSession{s}, err
}

type deniedSession struct{ driver.Session }

func (s deniedSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	if req.Marks != 0 {
		return nil, driver.ErrDenied
	}
	return s.Session.Update(ctx, req)
}

func TestDowngradeThatIsDeniedLeavesTheHoldWhatItWas(t *testing.T) {
	for name, o := range map[string]memory.Options{"plain": {}, "like ZooKeeper": {First: true, Later: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memtest.NewWith(o)
				s, err := session.Engine(door.Key{}).Open(t.Context(), denied{st.NewClient().Backend()}, nil)
				require.NoError(t, err)
				rw := rwlock.New(s, "n")
				h, err := rw.Lock(t.Context())
				require.NoError(t, err)
				require.ErrorIs(t, rw.Downgrade(t.Context(), h), session.ErrDenied)
				time.Sleep(time.Second)
				require.NoError(t, h.Context().Err())
				require.Equal(t, session.Exclusive, h.Mode())
				require.NoError(t, h.Unlock(), "released, and not downgraded once more")
				require.Empty(t, memtest.Entries(st, "n"))

				h, err = rw.Lock(t.Context())
				require.NoError(t, err)
				require.ErrorIs(t, rw.Downgrade(t.Context(), h), session.ErrDenied)
				time.Sleep(time.Second)
				st.Delete("n", memtest.Entries(st, "n")[0].Key)
				synctest.Wait()
				require.ErrorIs(t, context.Cause(h.Context()), session.ErrLost, "still watched")
				require.ErrorIs(t, h.Unlock(), session.ErrLost)
				require.NoError(t, s.Close())
			})
		})
	}
}

func TestTryDoCallsNothingWithoutAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := membackend.New().Open(t.Context(), nil)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		l := rwlock.New(s, "n")
		calls := 0
		call := func(context.Context, *session.Hold) error { calls++; return nil }
		require.NoError(t, l.TryDo(t.Context(), call))
		require.NoError(t, l.TryRDo(t.Context(), call))
		assert.Equal(t, 2, calls)
		h, err := l.RLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.TryRDo(t.Context(), call))
		require.ErrorIs(t, l.TryDo(t.Context(), call), session.ErrNotAcquired)
		require.NoError(t, h.Unlock())
		h, err = l.Lock(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, l.TryRDo(t.Context(), call), session.ErrNotAcquired)
		assert.Equal(t, 3, calls)
		require.NoError(t, h.Unlock())
		entries, err := l.Queue(t.Context())
		require.NoError(t, err)
		assert.Empty(t, entries)
	})
}

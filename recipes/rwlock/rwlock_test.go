package rwlock_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// What readers and writers are promised is told in recipes/recipetest, on every
// backend. Here is only what needs no service.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBadNamesAndClosedSessionsAreToldByEveryCall(t *testing.T) {
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
		{rwlock.New(closed, "n"), session.ErrClosed},
	} {
		for op, call := range map[string]func(context.Context) (*session.Hold, error){
			"rlock": c.rw.RLock, "lock": c.rw.Lock, "try rlock": c.rw.TryRLock, "try lock": c.rw.TryLock,
		} {
			h, err := call(t.Context())
			require.ErrorIs(t, err, c.want, op)
			require.ErrorContains(t, err, "rwlock: "+op+" ", "it says what was asked for")
			assert.Nil(t, h)
		}
		require.ErrorIs(t, c.rw.Do(t.Context(), nothing), c.want)
		require.ErrorIs(t, c.rw.RDo(t.Context(), nothing), c.want)
	}
	require.NoError(t, s.Close())
}

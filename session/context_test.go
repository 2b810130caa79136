package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// carries checks that a context leads to a hold, and not only to its token.
func carries(t *testing.T, ctx context.Context, want *session.Hold) { //nolint:revive // t comes first in a test
	t.Helper()
	h, ok := session.HoldFrom(ctx)
	require.True(t, ok)
	token, ok := session.TokenFrom(ctx)
	require.True(t, ok)
	assert.Equal(t, want.Token(), token)
	assert.Equal(t, want.Token(), h.Token())
	assert.Equal(t, want.Names(), h.Names())
	assert.Equal(t, want.Kind(), h.Kind())
	assert.Equal(t, want.Mode(), h.Mode())
	assert.Equal(t, want.Slot(), h.Slot())
}

func TestEachContextOfAHoldCarriesIt(t *testing.T) {
	_, _, s := memtest.Open(t)
	type key struct{}
	work := func(ctx context.Context, h *session.Hold) error {
		carries(t, ctx, h)
		carries(t, h.Context(), h)
		derived, cancel := context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Hour)
		defer cancel()
		carries(t, derived, h)
		carries(t, context.WithoutCancel(derived), h)
		return nil
	}
	locks := []*mutex.Mutex{mutex.New(s, "b"), mutex.New(s, "a")}
	all, err := mutex.LockAll(t.Context(), locks...)
	require.NoError(t, err)
	require.NoError(t, work(all.Context(), all))
	require.NoError(t, all.Unlock())

	require.NoError(t, mutex.New(s, "a").Do(t.Context(), work))
	require.NoError(t, mutex.New(s, "a").Once(t.Context(), "once", work))
	require.NoError(t, rwlock.New(s, "rw").RDo(t.Context(), work))
	require.NoError(t, semaphore.NewWith(s, "slots", 2, semaphore.Options{Slots: true}).Do(t.Context(), 1, work))
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, election.New(s, "lead").Run(ctx, "", func(ctx context.Context, h *session.Hold) error {
		defer cancel()
		return work(ctx, h)
	}), context.Canceled)
}

func TestAContextWithoutAHoldCarriesNone(t *testing.T) {
	for _, ctx := range []context.Context{t.Context(), context.Background(), context.WithoutCancel(t.Context())} {
		h, ok := session.HoldFrom(ctx)
		assert.False(t, ok)
		assert.Nil(t, h)
		h, ok = session.HoldOf(ctx, "a")
		assert.False(t, ok)
		assert.Nil(t, h)
		token, ok := session.TokenFrom(ctx)
		assert.False(t, ok)
		assert.Zero(t, token)
	}
}

// ofName checks which hold of a name a context carries: the one with a token, or none for 0.
func ofName(t *testing.T, ctx context.Context, name string, want session.Token) { //nolint:revive // t comes first in a test
	t.Helper()
	h, ok := session.HoldOf(ctx, name)
	require.Equal(t, want != 0, ok, name)
	if ok {
		assert.Equal(t, want, h.Token())
		assert.Contains(t, h.Names(), name)
	}
}

func TestTheInnermostHoldIsCarriedAndTheOthersByName(t *testing.T) {
	_, _, s := memtest.Open(t)
	tenant, err := mutex.New(s, "tenant").Lock(t.Context())
	require.NoError(t, err)
	accounts, err := mutex.LockAll(tenant.Context(), mutex.New(s, "x"), mutex.New(s, "y"))
	require.NoError(t, err)
	row, err := mutex.New(s, "row").Lock(context.WithoutCancel(accounts.Context()))
	require.NoError(t, err)

	carries(t, tenant.Context(), tenant)
	carries(t, accounts.Context(), accounts)
	carries(t, row.Context(), row)
	ofName(t, row.Context(), "tenant", tenant.Token())
	ofName(t, row.Context(), "x", accounts.Token())
	ofName(t, row.Context(), "y", accounts.Token())
	ofName(t, row.Context(), "row", row.Token())
	ofName(t, row.Context(), "other", 0)
	ofName(t, tenant.Context(), "row", 0)

	require.NoError(t, accounts.Unlock())
	ofName(t, row.Context(), "x", 0)
	ofName(t, row.Context(), "tenant", tenant.Token())
	require.NoError(t, row.Unlock())
	carries(t, row.Context(), row)
	ofName(t, row.Context(), "row", row.Token())
	ofName(t, row.Context(), "tenant", tenant.Token())
	require.NoError(t, tenant.Unlock())
}

// A resource refuses the token of a lost hold, so it must be shown to the end.
func TestALostHoldIsCarriedStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s := memtest.Open(t)
		outer, err := mutex.New(s, "outer").Lock(t.Context())
		require.NoError(t, err)
		h, err := mutex.New(s, "n").Lock(outer.Context())
		require.NoError(t, err)

		st.Expire(st.Sessions()[0])
		<-h.Context().Done()
		<-outer.Context().Done()

		require.ErrorIs(t, context.Cause(h.Context()), session.ErrLost)
		carries(t, h.Context(), h)
		carries(t, context.WithoutCancel(h.Context()), h)
		ofName(t, h.Context(), "n", h.Token())
		ofName(t, h.Context(), "outer", 0)
	})
}

func TestAReentrantHoldIsUnlockedByWhatTheContextCarries(t *testing.T) {
	_, _, s := memtest.Open(t)
	m := mutex.NewWith(s, "n", mutex.Options{Reentrant: true})
	outer, err := m.Lock(t.Context())
	require.NoError(t, err)
	inner, err := m.Lock(outer.Context())
	require.NoError(t, err)

	h, ok := session.HoldFrom(inner.Context())
	require.True(t, ok)
	require.NoError(t, h.Unlock())

	require.ErrorIs(t, inner.Unlock(), session.ErrUnlocked, "it was this one")
	require.NoError(t, outer.Unlock())
}

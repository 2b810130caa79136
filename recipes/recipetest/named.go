package recipetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// nameds are the cases of hosts that lock and unlock by name.
func nameds() []testCase {
	return []testCase{{"UnlockByNameAfterALossReleasesNoLaterHold", namedLost}}
}

// namedLost: two goroutines of one client lock a name, and the first loses its lock.
func namedLost(w *Fixture) {
	p, other := w.Client("p"), w.Client("other")
	n := mutex.NewNamed(func(name string) *mutex.Mutex { return mutex.New(p.Session, name) })
	require.NoError(w.t, n.Lock(w.soon(), name))
	first, ok := n.Hold(name)
	require.True(w.t, ok)
	soon := w.soon()
	second := p.BeginWith(func() (*session.Hold, error) {
		err := n.Lock(soon, name)
		h, _ := n.Hold(name)
		return h, err
	})
	waits := other.queue(w.soon())
	x := endOf(first)
	w.svc.Delete(w.t, Refs(first)[0])
	w.when(x)
	w.unlock(waits.granted()) // it waits for no goroutine of that client

	require.ErrorIs(w.t, n.Unlock(w.soon(), name), session.ErrLost)
	h := second.granted()
	assert.Greater(w.t, h.Token(), first.Token())
	_, err := mutex.New(other.Session, name).TryLock(w.soon())
	require.ErrorIs(w.t, err, session.ErrNotAcquired)
	assert.NotZero(w.t, h.Remaining())
	require.NoError(w.t, n.Unlock(w.soon(), name))
	require.ErrorIs(w.t, n.Unlock(w.soon(), name), session.ErrUnlocked)
}

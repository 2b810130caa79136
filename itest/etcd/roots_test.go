package etcd

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// nestedRoots uses roots of which one begins with the other.
func nestedRoots(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	for _, roots := range [][2]string{
		{"fairlock", "fairlock/team"}, {"a/b", "a/b/team"}, {"a", "a/%team"}, {"a%", "a%2Fteam"}, {"/a", "/a/team"},
	} {
		outer, inner := newClient(t, roots[0], recipetest.CalmTTL).open(t, client), newClient(t, roots[1], recipetest.CalmTTL).open(t, client)
		held := inner.Lock(t, "x")
		permit, err := semaphore.New(inner.Session, "pool", 2).Acquire(recipetest.Bounded(t), 1)
		require.NoError(t, err)
		for _, name := range []string{"team", "team/x", "%team", "%v2", "team/%v2/pool", "x", "pool"} {
			h, err := mutex.New(outer.Session, name).TryLock(recipetest.Bounded(t))
			if assert.NoError(t, err, "the lock %q of the root %q is free", name, roots[0]) {
				recipetest.Unlock(t, h)
			}
		}
		names, err := outer.Names(recipetest.Bounded(t), "")
		require.NoError(t, err)
		assert.Empty(t, names, "the locks of the root %q are not those of %q", roots[1], roots[0])
		names, err = inner.Names(recipetest.Bounded(t), "")
		require.NoError(t, err)
		assert.Equal(t, []string{"pool", "x"}, names)
		recipetest.Unlock(t, permit)
		recipetest.Unlock(t, held)
	}
}

// waitForSelf asks for "a" with the context of a hold of "a/b", where the queue of
// "a" contains the entries of "a/b".
func waitForSelf(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	p := newClient(t, "root", recipetest.CalmTTL)
	p.opts.Layout = etcdbackend.LayoutConcurrency
	p.open(t, client)
	held := p.Lock(t, "a/b")
	// The hold's context ends with the hold; what it carries is of interest here.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(held.Context()), recipetest.Patience)
	defer cancel()
	for what, ask := range map[string]func() (*session.Hold, error){
		"Lock":    func() (*session.Hold, error) { return mutex.New(p.Session, "a").Lock(ctx) },
		"TryLock": func() (*session.Hold, error) { return mutex.New(p.Session, "a").TryLock(ctx) },
		"RLock":   func() (*session.Hold, error) { return rwlock.New(p.Session, "a").RLock(ctx) },
		"LockAll": func() (*session.Hold, error) {
			return mutex.LockAll(ctx, mutex.New(p.Session, "a"), mutex.New(p.Session, "z"))
		},
	} {
		_, err := ask()
		require.ErrorIs(t, err, session.ErrReentrant, what)
		assert.ErrorContains(t, err, `"a/b"`, what)
	}
	for _, name := range []string{"a/b/c", "ab", "b"} {
		h, err := mutex.New(p.Session, name).Lock(ctx)
		require.NoError(t, err, "the queue of %q does not contain the entry", name)
		recipetest.Unlock(t, h)
	}
	recipetest.Unlock(t, held)
	h, err := mutex.New(p.Session, "a").Lock(ctx)
	if assert.NoError(t, err, "the hold is over") {
		recipetest.Unlock(t, h)
	}
}

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
	"github.com/fairlock/fairlock/session"
)

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

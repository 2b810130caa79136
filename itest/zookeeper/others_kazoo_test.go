package zookeeper

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

func TestTheQueueIsSharedWithKazoo(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	p := newClient(t, root, recipetest.EventTTL)
	p.opts.Layout = zkbackend.LayoutKazoo
	p.open(t, e.Endpoints()...)
	kazoo := startKazoo(t, e)
	c := &crowd{e: e, fair: p, theirs: map[string]*program{"kazoo": kazoo}}
	c.rotations(t, "fairlock", "kazoo")
	t.Run("AnotherLayoutIsWaitedFor", func(t *testing.T) { otherProtocolIsWaitedFor(t, root, kazoo, "lock") })
	t.Run("AnEntryWithoutASessionIsNamed", func(t *testing.T) { persistentIsNamed(t, root, kazoo, p) })
	p.Kept(t)
}

// persistentIsNamed is about entries without a session: Kazoo can make them.
func persistentIsNamed(t *testing.T, root string, kazoo *program, p *lockClient) {
	e, _ := shared(t)
	monitor := monitorOf(t, e, root+"/x")
	other := newClient(t, root, recipetest.EventTTL)
	other.opts.Layout = zkbackend.LayoutKazoo
	other.open(t, e.Endpoints()...)
	theirs := kazoo.open(t, "persistent", root+"/x")
	theirs.command(t, "acquire")
	path, token := theirs.acquired(t)
	var all []*recipetest.Request
	for i := range 6 { // only the first is right behind it
		all = append(all, []*lockClient{p, other}[i%2].Begin(recipetest.Bounded(t), "x"))
	}
	for _, r := range all {
		recipetest.Wait(t, r.Done, "an answer, by an event")
		require.ErrorIs(t, r.Err, session.ErrForeignKey)
		assert.ErrorContains(t, r.Err, path)
		assert.Nil(t, r.Hold)
	}
	t.Log(all[0].Err)
	monitor.Wait(t, "nothing but the entry", func(made, ended []string) bool { return len(ended) == len(made)-1 })
	require.Equal(t, []string{path}, entriesBelow(t, monitor.admin, root+"/x"))
	entries, err := mutex.New(p.Session, "x").Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.True(t, recipetest.Detail(entries[0]).Unleased)
	assert.True(t, entries[0].Foreign)
	assert.EqualValues(t, token, entries[0].Token)
	assert.Empty(t, entries[0].Session)
	_, err = mutex.New(p.Session, "x").TryLock(recipetest.Bounded(t))
	require.ErrorIs(t, err, session.ErrNotAcquired)
	assert.ErrorContains(t, err, path)

	theirs.does(t, "release")
	recipetest.Unlock(t, p.Lock(t, "x"))
	other.Kept(t)
	monitor.SeesNothingLeft(t)
}

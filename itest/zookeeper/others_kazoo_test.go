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

func TestTheLineIsSharedWithKazoo(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	p := newClient(t, root, recipetest.CalmTTL)
	p.opts.Layout = zkbackend.LayoutKazoo
	p.open(t, e.Endpoints()...)
	kazoo := startKazoo(t, e)
	c := &crowd{e: e, fair: p, theirs: map[string]*program{"kazoo": kazoo}}
	c.rotations(t, "fairlock", "kazoo")
	assert.Zero(t, logged(p, "several protocols"))
	t.Run("AnotherLayoutIsTold", func(t *testing.T) { otherProtocolIsTold(t, root, kazoo, "lock") })
	t.Run("AnEntryWithoutASessionIsNamed", func(t *testing.T) { persistentIsNamed(t, root, kazoo, p) })
	p.Kept(t)
}

// persistentIsNamed is about entries that nobody's end takes away: Kazoo makes
// them when it is asked to.
func persistentIsNamed(t *testing.T, root string, kazoo *program, p *lockClient) {
	e, _ := shared(t)
	lookout := lookAt(t, e, root+"/x")
	other := newClient(t, root, recipetest.CalmTTL)
	other.opts.Layout = zkbackend.LayoutKazoo
	other.open(t, e.Endpoints()...)
	theirs := kazoo.open(t, "persistent", root+"/x")
	theirs.told(t, "acquire")
	path, token := theirs.acquired(t)
	begin := recipetest.Now()
	var all []*recipetest.Request
	for i := range 6 { // only the first stands right behind it
		all = append(all, []*lockClient{p, other}[i%2].Begin(recipetest.Bounded(t), "x"))
	}
	for _, r := range all {
		recipetest.Wait(t, r.Done, "an answer")
		require.ErrorIs(t, r.Err, session.ErrForeignKey)
		assert.ErrorContains(t, r.Err, path)
		assert.Nil(t, r.Hold)
		assert.Less(t, r.At.Sub(begin), recipetest.Relooks, "without the look that is made for want of events")
	}
	t.Log(all[0].Err)
	lookout.Wait(t, "nothing but the entry", func(made, ended []string) bool { return len(ended) == len(made)-1 })
	require.Equal(t, []string{path}, entriesBelow(t, lookout.admin, root+"/x"))
	line, err := mutex.New(p.Session, "x").Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	require.Len(t, line, 1)
	assert.True(t, recipetest.Detail(line[0]).Unleased)
	assert.True(t, line[0].Foreign)
	assert.EqualValues(t, token, line[0].Token)
	assert.Empty(t, line[0].Session)
	_, err = mutex.New(p.Session, "x").TryLock(recipetest.Bounded(t))
	require.ErrorIs(t, err, session.ErrNotAcquired)
	assert.ErrorContains(t, err, path)

	theirs.does(t, "release")
	recipetest.Unlock(t, p.Lock(t, "x"))
	other.Kept(t)
	lookout.SeesNothingLeft(t)
}

package zookeeper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/child"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// TestKilledProcessesLeaveNothing kills a waiter and then the holder: the one
// behind both is granted when the holder has expired, and not before.
func TestKilledProcessesLeaveNothing(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	e, root := shared.use(t)
	lookout := lookAt(t, e, root)
	job := child.Job{Do: child.Hold, Servers: e.Servers(), Root: root, Name: "x", TTL: ttl}
	holder := job.Start(t)
	held := child.Report[child.Held](t, holder)
	waiter := job.Start(t)
	entries := lookout.Sees(t, 2)
	p := newClient(t, root, recipetest.CalmTTL).open(t, e.Servers()...)
	next := p.Begin(recipetest.Bounded(t), "x")
	lookout.Sees(t, 3)

	killed := recipetest.Now()
	waiter.Halt()
	waiterGone := lookout.SeesEnd(t, entries[1])
	next.Waits(t)
	line, err := mutex.New(p.Session, "x").Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	require.Len(t, line, 2)
	assert.Equal(t, holder.Pid(), line[0].Meta.PID)
	holder.Halt()
	holderGone := lookout.SeesEnd(t, held.Key)
	h := next.Granted(t)

	assert.Greater(t, waiterGone.Sub(killed), ttl/2, "by expiry")
	assert.Greater(t, int64(h.Token()), held.Token)
	assert.Greater(t, next.At.Sub(waiterGone), ttl*3/4, "granted before the holder expired")
	assert.Less(t, next.At.Sub(holderGone), recipetest.Relooks, "without the look that is made for want of events")
	t.Logf("the waiter's entry was gone %s after its end, the next granted %s after that of the holder", waiterGone.Sub(killed), next.At.Sub(holderGone))
	recipetest.Unlock(t, h)
	p.Kept(t)
	lookout.SeesNothingLeft(t)
}

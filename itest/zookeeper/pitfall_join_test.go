package zookeeper

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// breaker breaks a connection at the reply to a request of each kind, one after
// the other.
type breaker struct {
	mu    sync.Mutex
	kinds []int32
}

func (b *breaker) reply(request, f zkframe.Frame) (zkframe.Frame, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if proves(request) || len(b.kinds) == 0 || request.Op() != b.kinds[0] {
		return f, true
	}
	b.kinds = b.kinds[1:]
	return nil, false
}

func (b *breaker) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.kinds)
}

// lostRepliesLeaveNoOrphan loses the reply to a join, and those to what finds
// out what became of it.
func lostRepliesLeaveNoOrphan(t *testing.T) {
	e, root := shared(t)
	conn := e.Client(t)
	for _, kinds := range [][]int32{
		{zkframe.OpMulti},
		{zkframe.OpMulti, zkframe.OpGetChildren2},
		{zkframe.OpMulti, zkframe.OpExists},
		{zkframe.OpMulti, zkframe.OpGetChildren2, zkframe.OpExists},
		{zkframe.OpMulti, zkframe.OpGetChildren2, zkframe.OpGetChildren2, zkframe.OpExists, zkframe.OpExists},
	} {
		queue := fmt.Sprint(kinds)
		dir := folder(t, conn, root+"/"+queue)
		b := &breaker{}
		o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: (&wire{reply: b.reply}).dial}, e.Endpoints()...)
		b.mu.Lock()
		b.kinds = slices.Clone(kinds)
		b.mu.Unlock()
		j := o.join(t, queue)

		assert.Zero(t, b.left(), "faults that did not come to pass: %v", kinds)
		assert.Len(t, children(t, conn, dir), 1, "%v", kinds)
		assert.Equal(t, 2, made(t, conn, dir), "the entry, and the node of a first join: %v", kinds)
		assert.Equal(t, o.ID(), ownerOf(t, conn, j.Entry.Key))
		_, stat, err := conn.Exists(j.Entry.Key)
		require.NoError(t, err)
		assert.Equal(t, stat.Czxid, j.Entry.Token)
		assert.Zero(t, j.View.Count)
		_, err = o.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: j.Entry.Ref})
		require.NoError(t, err)
		assert.Empty(t, children(t, conn, dir))
	}
}

// lateCommitMakesOneEntry: a connection breaks when a join was sent and not committed,
// because the network between the servers is slow. A read on the next connection does
// not show the entry yet.
func lateCommitMakesOneEntry(t *testing.T) {
	const way = 300 * time.Millisecond
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true})
	leader, err := e.Leader(recipetest.Bounded(t))
	require.NoError(t, err)
	conn := connTo(t, e, leader, recipetest.CalmTTL)
	slow, far := (leader+1)%3, (leader+2)%3
	for round := range 6 {
		queue := fmt.Sprint("x", round)
		dir := folder(t, conn, "/fairlock/"+queue)
		// In the first of these ways the leader accepts the join, because it learns of
		// the new connection a moment later, and commits it after the read on the new
		// server.
		ways := [][2]int{{slow, far}, {slow, leader}, {leader, leader}}
		first, then := e.Member(ways[round%3][0]).Direct(), e.Member(ways[round%3][1]).Direct()
		var hit atomic.Bool
		w := &wire{refuse: func(addr string) bool { return first != then && (addr == first) == hit.Load() }}
		w.after = func(f zkframe.Frame) bool { return !joins(f) || hit.Swap(true) }
		servers := slices.Compact([]string{first, then}) // none may be named twice
		o := drive(t, recipetest.CalmTTL, zkbackend.Options{Dial: w.dial, TickTime: 100 * time.Millisecond}, servers...)
		delay := func(d time.Duration) {
			e.Member(slow).DelayTo(leader, d)
			e.Member(far).DelayTo(leader, d+d/4)
		}
		delay(way)
		j := o.join(t, queue)
		delay(0)

		assert.True(t, hit.Load())
		assert.Positive(t, w.connections(then))
		assert.Len(t, children(t, conn, dir), 1)
		assert.Zero(t, j.View.Count)
		assert.Equal(t, o.ID(), ownerOf(t, conn, j.Entry.Key))
		_, err = o.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: j.Entry.Ref})
		require.NoError(t, err)
		<-time.After(way / 5)
		assert.Empty(t, children(t, conn, dir), "and nothing comes late")
	}
}

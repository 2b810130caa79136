package etcd

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
)

// lineUp makes entries one behind the other, in a session each, which watches the entry ahead.
func lineUp(t *testing.T, client *clientv3.Client, n int) (owners []*owner, entries []driver.Ref, ahead []events) {
	ahead = make([]events, n)
	for i := range n {
		o := open(t, client, nil, recipetest.EventTTL)
		e := o.join(t, driver.JoinRequest{Queue: "x"}).Entry.Ref
		owners, entries = append(owners, o), append(entries, e)
		if i > 0 {
			ahead[i] = o.watch(t, entries[i-1].Target())
			ahead[i].next(t, driver.Armed)
		}
	}
	time.Sleep(100 * time.Millisecond) // until the server has made the second watch on each
	return owners, entries, ahead
}

func TestTheEndOfAnEntryShowsThatItWasFirst(t *testing.T) {
	t.Parallel()
	client := etcdtest.New(t, nil).Client(t)
	owners, entries, ahead := lineUp(t, client, 8)
	history := client.Watch(recipetest.Bounded(t), "fairlock/%v2/x/%first/", clientv3.WithPrefix())
	release := func(i int, first bool) driver.Event {
		left, err := owners[i].Leave(t.Context(), driver.LeaveRequest{Ref: entries[i], First: first})
		require.NoError(t, err)
		assert.Equal(t, []driver.Left{driver.Deleted}, left)
		return ahead[i+1].next(t, driver.Gone)
	}
	assert.False(t, release(5, false).First, "a waiter gave up")
	shown := 0
	for i := range 5 {
		first := release(i, true).First
		assert.False(t, first && i < 2, "with at most two ahead, a waiter watches both")
		if first {
			shown++
		}
	}
	assert.Positive(t, shown, "it can be reported too late, and seldom is")
	hang.Until(t, func() bool { return count(t, client, "fairlock/%v2/x/") == 0 }, "a key stays that is not used again")
	written, deleted := map[string]bool{}, 0 // each key is deleted once, when it is not used any more
	for deleted < 3 {
		all := <-history
		require.NoError(t, all.Err())
		for _, ev := range all.Events {
			written[string(ev.Kv.Key)] = true
			if ev.Type == clientv3.EventTypeDelete {
				deleted++
			}
		}
	}
	assert.Len(t, written, 3, "keys")
	owners[6].leave(t, entries[6])
	assert.False(t, ahead[7].next(t, driver.Gone).First, "what was written for an earlier entry does not count")
}

// TestAHandOffIsOneRoundTrip: from the third release on, a waiter needs no read, because it
// learns with the end of the entry ahead that this was first. A few may learn it too late.
func TestAHandOffIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, nil)
	client, w := wired(t, cluster)
	reads := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.Count(kindsOf(w.sent), "R")
	}
	const sessions = 12
	var wg sync.WaitGroup
	release, admin := make(chan struct{}), cluster.Client(t)
	for i := range sessions {
		c := newClient(t, "root", recipetest.CalmTTL).open(t, client)
		lock := mutex.New(c.Session, "x")
		wg.Go(func() {
			h, err := lock.Lock(t.Context())
			if !assert.NoError(t, err) {
				return
			}
			<-release
			recipetest.Unlock(t, h)
		})
		recipetest.Until(t, "the next one to join", func() bool { return count(t, admin, "root/x/") == i+1 })
	}
	time.Sleep(time.Second) // all watches are there
	before := reads()
	close(release)
	wg.Wait()
	assert.Less(t, reads()-before, sessions/2, "reads of %d hand-offs", sessions-1)
}

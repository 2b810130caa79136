package etcd

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// A server whose channel to us is full tells events out of order. Then nobody
// may be granted on the word of the stream alone.
func TestEtcdDriverBurstsNeverHideTheOwnEnd(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	direct := clientOf(t, cluster, 0)
	other := lease(t, direct, nil, 30*time.Second)
	l := lease(t, cluster.Client(t), nil, 30*time.Second)
	const n = 600
	long := strings.Repeat("x", 400) // so that few events fill the connection
	pres, mines := make([]driver.Joined, n), make([]driver.Joined, n)
	var ready, gone sync.WaitGroup
	for i := range n {
		ready.Go(func() {
			pres[i] = other.join(t, fmt.Sprint(i, long))
			mines[i] = l.join(t, fmt.Sprint(i, long))
		})
	}
	ready.Wait()

	var mu sync.Mutex
	var state [n]driver.EventKind // of the own entries
	granted, disarmed, swapped := 0, 0, 0
	ready.Add(2 * n)
	gone.Add(2 * n)
	for i := range n {
		once := [2]sync.Once{}
		note := func(who int) func(driver.Event) {
			return func(ev driver.Event) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case ev.Kind == driver.Armed:
					once[who].Do(ready.Done)
				case ev.Kind == driver.Gone:
					gone.Done()
				case who == 0:
					disarmed++
				}
				if who == 0 {
					state[i] = ev.Kind
					return
				}
				if ev.Kind == driver.Gone && state[i] == driver.Armed {
					granted++
				}
				if ev.Kind == driver.Gone && state[i] != driver.Gone {
					swapped++
				}
			}
		}
		l.Watch(driver.WatchRequest{Ref: mines[i].Entry.Ref, Own: true}, note(0))
		l.Watch(driver.WatchRequest{Ref: pres[i].Entry.Ref}, note(1))
	}
	ready.Wait()
	proxy := cluster.Member(0).ClientProxy()
	proxy.Hold(fault.Replies)
	for chunk := range slices.Chunk(mines, 100) {
		var ops []clientv3.Op
		for _, j := range chunk {
			ops = append(ops, clientv3.OpDelete(j.Entry.Key))
		}
		_, err := direct.Txn(t.Context()).Then(ops...).Commit()
		require.NoError(t, err)
	}
	proxy.Heal(fault.Replies)
	require.NoError(t, other.Close(t.Context()))
	gone.Wait()

	t.Logf("told out of order %d, disarmed %d", swapped, disarmed)
	assert.Zero(t, granted, "entries that were gone before their predecessor")
	again := l.join(t, "x")
	l.watch(t, driver.WatchRequest{Ref: again.Entry.Ref, Own: true}).next(t, driver.Armed)
}

func TestEtcdDriverSilentStreamIsGivenUp(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, &etcdtest.Options{Members: 3, Proxied: true})
	client := cluster.Client(t)
	other := cluster.Client(t)
	l := lease(t, client, nil, 4*time.Second)
	o := lease(t, other, nil, 30*time.Second)
	a := o.join(t, "x")
	pre := l.watch(t, driver.WatchRequest{Ref: a.Entry.Ref})
	pre.next(t, driver.Armed)

	// One of three connections goes silent; it may be the stream's.
	for i := range 3 {
		cluster.Member(i).ClientProxy().Hold(fault.Both)
		begin := time.Now()
		heard := false
		for time.Since(begin) < 4*time.Second && !heard {
			select {
			case ev := <-pre:
				require.Equal(t, driver.Broken, ev.Kind)
				pre.next(t, driver.Armed)
				heard = true
			case <-time.After(50 * time.Millisecond):
			}
		}
		cluster.Member(i).ClientProxy().Heal(fault.Both)
		if heard {
			t.Logf("stream of member %d given up after %s", i, time.Since(begin))
		}
	}
	assert.False(t, l.isGone(), "renewals go over other endpoints")
	o.leave(t, a.Entry.Ref)
	for ev := range pre {
		if ev.Kind == driver.Gone {
			break
		}
	}
}

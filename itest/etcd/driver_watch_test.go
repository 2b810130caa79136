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
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

func TestEtcdDriverWatchTellsTheEnd(t *testing.T) {
	for _, wrapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("wrapped=%v", wrapped), func(t *testing.T) {
			cluster := etcdtest.New(t, nil)
			client := cluster.Client(t)
			if wrapped {
				client.KV = namespace.NewKV(client.KV, "team/")
				client.Watcher = namespace.NewWatcher(client.Watcher, "team/")
				client.Lease = namespace.NewLease(client.Lease, "team/")
			}
			l := lease(t, client, nil, 5*time.Second)
			assert.Equal(t, !wrapped, l.b.Profile().Ordered)
			a, b := l.join(t, "x"), l.join(t, "x")
			own := l.watch(t, driver.WatchRequest{Ref: b.Entry.Ref, Own: true})
			pre := l.watch(t, driver.WatchRequest{Ref: a.Entry.Ref})
			chg := l.watch(t, driver.WatchRequest{Ref: a.Entry.Ref, Changes: true})
			assert.GreaterOrEqual(t, own.next(t, driver.Armed).Rev, b.Entry.Place)
			pre.next(t, driver.Armed)
			chg.next(t, driver.Armed)

			_, err := client.Put(t.Context(), a.Entry.Key, "{}", clientv3.WithIgnoreLease())
			require.NoError(t, err)
			chg.next(t, driver.Changed)
			left := l.leave(t, a.Entry.Ref)
			assert.Equal(t, left.Rev, pre.next(t, driver.Gone).Rev)
			chg.next(t, driver.Gone)

			// The slot is used again; a watch on the old entry is not fooled.
			c := l.join(t, "x")
			require.Equal(t, a.Entry.Key, c.Entry.Key)
			second := l.watch(t, driver.WatchRequest{Ref: c.Entry.Ref, Own: true, Since: c.Entry.Place})
			second.next(t, driver.Armed)
			_, err = client.Delete(t.Context(), b.Entry.Key)
			require.NoError(t, err)
			own.next(t, driver.Gone)
			assert.Empty(t, second)
			assert.Empty(t, own)
			l.leave(t, c.Entry.Ref)
			second.next(t, driver.Gone)

			// An own entry that ended before it was watched.
			d := l.join(t, "x")
			_, err = client.Delete(t.Context(), d.Entry.Key)
			require.NoError(t, err)
			late := l.watch(t, driver.WatchRequest{Ref: d.Entry.Ref, Own: true, Since: d.Entry.Place})
			ev := <-late
			if ev.Kind == driver.Armed { // the news is still on its way
				ev = late.next(t, driver.Gone)
			}
			assert.Equal(t, driver.Gone, ev.Kind)
		})
	}
}

func TestEtcdDriverOwnEndComesBeforeLaterEvents(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client := cluster.Client(t)
	other := lease(t, client, nil, 5*time.Second)
	l := lease(t, client, nil, 5*time.Second)
	for i := range 200 {
		line := fmt.Sprint("x", i%3)
		pre, mine := other.join(t, line), l.join(t, line)
		var mu sync.Mutex
		var seen []string
		armed, done := make(chan struct{}, 2), make(chan struct{}, 2)
		note := func(who string) func(driver.Event) {
			return func(ev driver.Event) {
				switch ev.Kind {
				case driver.Armed:
					armed <- struct{}{}
				case driver.Gone:
					mu.Lock()
					seen = append(seen, who)
					mu.Unlock()
					done <- struct{}{}
				case driver.Broken, driver.Changed:
				}
			}
		}
		l.Watch(driver.WatchRequest{Ref: mine.Entry.Ref, Own: true}, note("own"))
		l.Watch(driver.WatchRequest{Ref: pre.Entry.Ref}, note("other"))
		<-armed
		<-armed
		_, err := client.Delete(t.Context(), mine.Entry.Key)
		require.NoError(t, err)
		other.leave(t, pre.Entry.Ref)
		<-done
		<-done
		require.Equal(t, []string{"own", "other"}, seen)
	}
}

// A server whose channel to us is full tells events out of order. Then nobody
// may be granted on the word of the stream alone.
func TestEtcdDriverBurstsNeverHideTheOwnEnd(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	direct, err := cluster.NewClient(func(cfg *clientv3.Config) { cfg.Endpoints = []string{cluster.Member(0).Direct()} })
	require.NoError(t, err)
	t.Cleanup(func() { _ = direct.Close() })
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

func TestEtcdDriverStreamIsMadeAnew(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	client, direct := cluster.Client(t), cluster
	l := lease(t, client, nil, 8*time.Second)
	a, b := l.join(t, "x"), l.join(t, "x")
	own := l.watch(t, driver.WatchRequest{Ref: b.Entry.Ref, Own: true})
	pre := l.watch(t, driver.WatchRequest{Ref: a.Entry.Ref})
	own.next(t, driver.Armed)
	pre.next(t, driver.Armed)

	direct.Member(0).ClientProxy().Reset()
	own.next(t, driver.Broken)
	pre.next(t, driver.Broken)
	own.next(t, driver.Armed)
	pre.next(t, driver.Armed)

	l.leave(t, a.Entry.Ref)
	pre.next(t, driver.Gone)
	l.leave(t, b.Entry.Ref)
	own.next(t, driver.Gone)
	assert.False(t, l.isGone())
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

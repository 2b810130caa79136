package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

const (
	holeTTL   = 5 * time.Second
	holeTries = 3
)

// blackHoleLosesNoSession judges the sessions and not the machine: if that did not let this
// process run, with the servers in it, for as long as a renewal may be late, the loss of a
// session proves nothing, and all is done once more.
func blackHoleLosesNoSession(t *testing.T) {
	for try := 1; ; try++ {
		w := newHoleWorkers(t)
		beat, began := metronome.Start(), time.Now()
		w.work(t)
		beat.Stop()
		stalled, longest := beat.Between(began, time.Now())
		if lost := w.lost(); len(lost) == 0 || stalled < holeTTL/4 || try == holeTries {
			w.check(t)
			return
		}
		t.Logf("lost while this process did not run for %s in all, %s at a time", stalled, longest)
		w.close(t)
	}
}

// holeWorkers are sessions that each hold a lock, and acquire and release another one,
// while one of three endpoints accepts what is sent to it and never answers.
type holeWorkers struct {
	cluster *etcdtest.Cluster
	monitor *monitor
	clients [10]*lockClient
	held    [10]*session.Hold

	mu     sync.Mutex
	took   []time.Duration
	failed []error
}

func newHoleWorkers(t *testing.T) *holeWorkers {
	w := &holeWorkers{cluster: etcdtest.New(t, &etcdtest.Options{Members: 3, Proxied: true})}
	w.monitor = watchPrefix(t, clientOf(t, w.cluster, 0, 1, 2), "root/")
	for i := range w.clients {
		w.clients[i] = newClient(t, "root", holeTTL).open(t, w.cluster.Client(t))
		w.held[i] = w.clients[i].Lock(t, fmt.Sprint("kept", i))
	}
	w.cluster.Member(1).ClientProxy().Drop(fault.Both)
	return w
}

// work goes on for three times the TTL.
func (w *holeWorkers) work(t *testing.T) {
	end := time.After(3 * holeTTL)
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for i := range w.clients {
		workers.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for w.once(t, i) {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
			}
		})
	}
	<-end
	close(stop)
	workers.Wait()
}

// once acquires a lock and releases it, and reports whether both succeeded.
func (w *holeWorkers) once(t *testing.T, i int) bool {
	var err error
	took := metronome.Time(func() {
		err = mutex.New(w.clients[i].Session, fmt.Sprint("free", i)).Do(t.Context(), func(context.Context, *session.Hold) error { return nil })
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && !errors.Is(err, session.ErrReleasePending) {
		w.failed = append(w.failed, err)
		return false
	}
	w.took = append(w.took, took)
	return true
}

// lost returns the sessions that were lost.
func (w *holeWorkers) lost() (all []session.Event) {
	for _, p := range w.clients {
		all = append(all, p.Lost()...)
	}
	return all
}

func (w *holeWorkers) check(t *testing.T) {
	hole := w.cluster.Member(1).ClientProxy()
	assert.Positive(t, hole.Stats().Requests.Dropped, "requests went into the hole")
	assert.Empty(t, w.failed)
	for i, h := range w.held {
		assert.NoError(t, context.Cause(h.Context()))
		assert.Positive(t, h.Remaining())
		w.clients[i].Kept(t)
	}
	slices.Sort(w.took)
	require.NotEmpty(t, w.took)
	t.Logf("%d times locked and unlocked with a black hole: median %s, 99 in 100 %s, longest %s; %d bytes lost",
		len(w.took), w.took[len(w.took)/2], w.took[len(w.took)*99/100], w.took[len(w.took)-1], hole.Stats().Requests.Dropped)
	assert.Less(t, w.took[len(w.took)-1], 2*holeTTL)
	hole.Heal(fault.Both)
	for _, h := range w.held {
		recipetest.UnlockInTrouble(t, h)
	}
	// What keeps requests that were lost in the hole from being carried out goes with its
	// session.
	fences, err := w.cluster.Client(t).Get(recipetest.Bounded(t), "root/%fence/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	assert.LessOrEqual(t, fences.Count, int64(len(w.clients)), "one for each session: it joins one queue at a time")
	w.close(t)
	w.monitor.SeesNothingLeft(t)
}

// close closes the sessions at once.
func (w *holeWorkers) close(t *testing.T) {
	w.cluster.Member(1).ClientProxy().Heal(fault.Both)
	var closing sync.WaitGroup
	for _, p := range w.clients {
		closing.Go(func() { assert.NoError(t, p.Close()) })
	}
	closing.Wait()
}

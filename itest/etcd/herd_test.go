package etcd

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// TestSessionsThatLockInALoopAreNotNotifiedOfOneAnother: their order changes all the time, so
// each session soon waits behind every other one. Watches are kept for a while, because the same
// neighbours come back; if all were kept, each acquisition would notify all sessions twice.
func TestSessionsThatLockInALoopAreNotNotifiedOfOneAnother(t *testing.T) {
	t.Parallel()
	const sessions, rounds = 24, 50
	cluster := etcdtest.New(t, nil)
	var m meter
	var wg sync.WaitGroup
	for range sessions {
		c := newClient(t, "root", recipetest.CalmTTL).open(t, clientWith(t, cluster, func(cfg *clientv3.Config) { m.on(cfg) }))
		lock := mutex.New(c.Session, "x")
		wg.Go(func() {
			for range rounds {
				h, err := lock.Lock(t.Context())
				if assert.NoError(t, err) {
					recipetest.Unlock(t, h)
				}
				time.Sleep(rand.N(2 * time.Millisecond)) // overtakes some
			}
		})
	}
	wg.Wait()
	each := float64(m.events.Load()) / (sessions * rounds)
	t.Logf("%.1f events and %.2f watches for an acquisition", each, float64(m.watches.Load())/(sessions*rounds))
	assert.Less(t, each, 15.0, "events for an acquisition")
}

package conntest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/testnet"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
	"github.com/fairlock/fairlock/zktest"
)

var (
	randomSeed = flag.Uint64("conn.seed", 0, "the seed of TestOutcomesAreTrueUnderRandomFaults; 0 means any")
	randomTime = flag.Duration("conn.time", 6*time.Second, "for how long TestOutcomesAreTrueUnderRandomFaults runs")
)

// TestOutcomesAreTrueUnderRandomFaults: the node of a create that was done is there, and that of one that
// was not done is not there and does not come, whatever happens to the connections to three servers. Watches
// report notices in the right order, and each once.
func TestOutcomesAreTrueUnderRandomFaults(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -args -conn.seed=%d", seed)
	e := members(t, zktest.Options{})
	for root := "/r"; !outcomesAreTrue(t, e, root, seed); root += "r" {
		require.Less(t, len(root), 4, "the machine stands still again and again")
	}
}

// outcomesAreTrue runs the workers and the faults below a root of their own. It returns false if the session was
// lost because the machine stood still: a fault takes up to a third of its TTL, and nothing of it is left to check.
func outcomesAreTrue(t *testing.T, e *zktest.Ensemble, root string, seed uint64) bool {
	t.Helper()
	admin := e.Client(t)
	_, err := admin.Create(root, nil, 0, open)
	require.NoError(t, err)
	proxies := []*testnet.Proxy{proxyTo(t, e, 0), proxyTo(t, e, 1), proxyTo(t, e, 2)}
	c := newClient(4*time.Second, proxies[0].Addr(), proxies[1].Addr(), proxies[2].Addr())
	c.cfg.TickTime = 100 * time.Millisecond
	c.open(t)
	machine, began := metronome.Start(), time.Now()
	defer machine.Stop()
	ctx, stop := context.WithTimeout(context.Background(), *randomTime)
	defer stop()
	var working sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]string{}
	counts := map[string]int{}

	for w := range 6 {
		random := rand.New(rand.NewPCG(seed, uint64(w)))
		working.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				path := fmt.Sprintf("%s/%d-%d", root, w, i)
				one, cancel := context.WithTimeout(ctx, time.Duration(1+random.IntN(1000))*time.Millisecond)
				_, err := c.Once(one, create(path, nil, zk.FlagEphemeral))
				cancel()
				outcome := "done"
				switch {
				case isUnknown(err):
					outcome = "unknown"
				case err != nil:
					outcome = "not done"
				}
				mu.Lock()
				outcomes[path[len(root)+1:]] = outcome
				counts[outcome]++
				mu.Unlock()
			}
		})
		working.Go(func() { watchInOrder(ctx, t, c, fmt.Sprintf("%s/%d-", root, w)) })
	}
	random := rand.New(rand.NewPCG(seed, 99))
	for ctx.Err() == nil {
		p := proxies[random.IntN(3)]
		d := time.Duration(random.IntN(1200)) * time.Millisecond
		switch random.IntN(4) {
		case 0:
			p.Reset()
			d /= 10
		case 1:
			p.Hold(fault.Directions()[random.IntN(3)])
		case 2:
			p.Refuse(true)
			p.Reset()
		case 3:
			p.Delay(fault.Both, d/10)
		}
		driver.Sleep(ctx, c.cfg.Clock, d)
		p.Refuse(false)
		p.Delay(fault.Both, 0)
		p.Heal(fault.Both)
	}
	working.Wait()
	if _, longest := machine.Between(began, time.Now()); longest > time.Second && len(c.losses()) > 0 {
		t.Logf("lost; the machine stood still for %v", longest)
		return false
	}
	require.Empty(t, c.losses())
	_, err = c.Read(bounded(t), conn.Sync())
	require.NoError(t, err)
	time.Sleep(500 * time.Millisecond) // for creates that are carried out late
	_, err = admin.Sync("/")
	require.NoError(t, err)
	names, _, err := admin.Children(root)
	require.NoError(t, err)
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	for name, outcome := range outcomes {
		if outcome != "unknown" {
			assert.Equal(t, outcome == "done", there[name], "the outcome of %s was %s", name, outcome)
		}
	}
	t.Logf("%v", counts)
	assert.Greater(t, counts["done"], 50)
	return true
}

// watchInOrder watches nodes that come, one after the other.
func watchInOrder(ctx context.Context, t *testing.T, c *client, prefix string) {
	for i := 0; ctx.Err() == nil; i++ {
		last := make(chan conn.NoticeKind, 1)
		var kinds []conn.NoticeKind
		cancel := c.Watch(conn.WatchData, fmt.Sprint(prefix, i), func(n conn.Notice) {
			if kinds = append(kinds, n.Kind); n.Kind != conn.Armed {
				last <- n.Kind
			}
			if n.Kind == conn.Refused && !errors.Is(n.Answer.Err, zk.ErrNoNode) {
				assert.ErrorIs(t, n.Answer.Err, driver.ErrSessionOver)
			}
		})
		select {
		case kind := <-last:
			want := []conn.NoticeKind{conn.Armed, kind}
			if kind == conn.Refused {
				want = want[1:]
			}
			assert.Equal(t, want, kinds)
		case <-time.After(20 * time.Millisecond):
			cancel()
		case <-ctx.Done():
			cancel()
		}
	}
}

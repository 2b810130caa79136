package leaderelection

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/fairlock/fairlock/internal/rollout"
)

// lease is a lock of client-go whose record is a key of etcd that changes by compare-and-swap. That is
// what a Lease is in the store of the API server, without that server.
type lease struct {
	client   *clientv3.Client
	key, id  string
	revision int64
	led      bool // the record has had the id
}

func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, err := l.client.Get(ctx, l.key)
	if err != nil {
		return nil, nil, err
	}
	if len(r.Kvs) == 0 {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, l.key)
	}
	l.revision = r.Kvs[0].ModRevision
	var record resourcelock.LeaderElectionRecord
	return &record, r.Kvs[0].Value, json.Unmarshal(r.Kvs[0].Value, &record)
}

func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.revision = 0
	return l.Update(ctx, record)
}

func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	r, err := l.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(l.key), "=", l.revision)).Then(clientv3.OpPut(l.key, string(text))).Commit()
	if err != nil {
		return err
	}
	if !r.Succeeded {
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, l.key, nil)
	}
	l.revision, l.led = r.Header.Revision, l.led || record.HolderIdentity == l.id
	return nil
}

func (l *lease) RecordEvent(string) {}
func (l *lease) Identity() string   { return l.id }
func (l *lease) Describe() string   { return l.key }

var rollOuts = flag.Int("rollouts", 2, "how many roll-outs TestRollOutsOfALeaderElector makes with each period, all at once")

// TestRollOutsOfALeaderElector measures what the scenario roll of bench does, for client-go's
// elector with ReleaseOnCancel. It judges only that each roll-out took place.
func TestRollOutsOfALeaderElector(t *testing.T) {
	cluster := etcd.use(t)
	for _, period := range []time.Duration{2 * time.Second, retryPeriod} { // client-go's default, and a short one
		for _, script := range []rollout.Script{{NewFirst: true}, {AnyOrder: true}} {
			var mu sync.Mutex
			var gaps []time.Duration
			var changes, overlaps int
			var all sync.WaitGroup
			for seed := range *rollOuts {
				all.Go(func() {
					client := cluster.Client(t)
					key := t.Name() + period.String() + script.String() + strconv.Itoa(seed)
					f := rollout.NewFleet(seed, nil)
					f.Least, f.Most = 300*time.Millisecond, 600*time.Millisecond
					f.Start = func(version int64) rollout.Replica { return elector(t, f, client, key, period, version) }
					young := f.Replace(f.First(), script)
					seen := f.Seen()
					rollout.Stop(young)
					mu.Lock()
					defer mu.Unlock()
					assert.Equal(t, int64(rollout.New), seen.Led[len(seen.Led)-1])
					assert.LessOrEqual(t, seen.Changes(), rollout.Replicas)
					gaps, changes, overlaps = append(gaps, seen.Gaps...), changes+seen.Changes(), overlaps+seen.Overlaps
				})
			}
			all.Wait()
			slices.Sort(gaps)
			t.Logf("%s, every %v: changes %.2f, gap p50 %v, p99 %v, overlaps %d, roll-outs %d", script, period,
				float64(changes)/float64(*rollOuts), gaps[(len(gaps)-1)/2], gaps[(len(gaps)*99-1)/100], overlaps, *rollOuts)
		}
	}
}

// elector starts a replica with an elector.
func elector(t *testing.T, f *rollout.Fleet, client *clientv3.Client, key string, period time.Duration, version int64) rollout.Replica {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	lock := &lease{client: client, key: key, id: rand.Text()}
	worked := make(chan struct{})
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: period, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				defer close(worked)
				f.Lead(version, func() {
					<-ctx.Done()
					time.Sleep(f.StopTime())
				})
			},
			OnStoppedLeading: func() {},
		},
	})
	assert.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Run(ctx)
		if lock.led { // it does not wait for the work
			<-worked
		}
	}()
	return rollout.Replica{Ended: ended, Stop: func() { cancel(); <-ended }}
}

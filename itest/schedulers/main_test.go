// Package schedulers tests the adapters for schedulers with replicas that are processes of
// their own, on etcd.
package schedulers

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/session"
)

// env makes a test binary a replica; its value is a job.
const env = "FAIRLOCK_ITEST_REPLICA"

func TestMain(m *testing.M) {
	process.Child(env, replica)
	goleak.VerifyTestMain(m)
}

// job describes a replica.
type job struct {
	Host      string // of hosts
	Elector   bool   // only the leader runs; otherwise each tick is for Once
	Endpoints []string
	TTL       time.Duration
	Speed     int           // how fast the clock of all replicas goes
	Skew      time.Duration // by which the clock of the replica is wrong, in real time
	Every     time.Duration // between two ticks, by the clock
	Ticks     int           // how many count
	Sticks    int           // the replica never ends the work of this tick; -1 for none
}

// report is a line that a replica writes. Ticks are counted from the first one that counts.
type report struct {
	Kind string // one of the following
	Tick int
}

const (
	ready = "ready" // the session is open
	began = "began" // the work of a tick
	ran   = "ran"   // the work of a tick, to its end
	tried = "tried" // the host begins a run, of any tick
	idle  = "idle"  // all ticks are over, and so is all work
)

// A running is a replica in its own process.
type running struct {
	job
	s     *session.Session
	first time.Time // the first tick that counts

	mu  sync.Mutex
	out *json.Encoder
	now int // how many runs of the host are under way
}

// replica is the main function of a replica. It writes ready, reads the time of the first
// tick, and works until its input ends.
func replica(text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &running{out: json.NewEncoder(os.Stdout)}
	if err := json.Unmarshal([]byte(text), &r.job); err != nil {
		return err
	}
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: r.Endpoints, Timeout: hang.Guard}, &etcdbackend.Options{Session: session.Options{TTL: r.TTL}})
	if err != nil {
		return err
	}
	r.s = s
	r.report(ready, 0)
	in := json.NewDecoder(os.Stdin)
	if err := in.Decode(&r.first); err != nil {
		return errors.Join(err, s.Close())
	}
	shutdown, err := hosts[r.Host](ctx, r)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for in.Decode(new(any)) == nil { // until its end
		}
	}()
	r.untilIdle(ended)
	<-ended
	return errors.Join(shutdown(), s.Close())
}

// untilIdle reports when all ticks are over, unless the input ends before.
func (r *running) untilIdle(ended <-chan struct{}) {
	over := r.first.Add(time.Duration(r.Ticks+1) * r.Every)
	for {
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
		r.mu.Lock()
		working := r.now
		r.mu.Unlock()
		if working == 0 && r.clock().After(over) {
			r.report(idle, 0)
			return
		}
	}
}

// clock returns the time by the clock of this replica. At the first tick, the right clock has
// the real time.
func (r *running) clock() time.Time {
	return r.first.Add(time.Duration(r.Speed) * (time.Since(r.first) + r.Skew))
}

// host notes that the host begins or ends a run.
func (r *running) host(n int) {
	if n > 0 {
		r.report(tried, 0)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now += n
}

// index returns the number of the tick that is nearest to a time, and whether it counts.
func (r *running) index(at time.Time) (int, bool) {
	since := at.Sub(r.first) + r.Every/2
	if since < 0 {
		return 0, false
	}
	i := int(since / r.Every)
	return i, i < r.Ticks
}

func (r *running) report(kind string, tick int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(report{kind, tick}) // a test that has ended does not read it
}

// work is the job of one tick, and takes a millisecond.
func (r *running) work(ctx context.Context, _ *session.Hold, at time.Time) error {
	i, ok := r.index(at)
	if !ok {
		return nil
	}
	r.report(began, i)
	if i == r.Sticks {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	time.Sleep(time.Millisecond)
	r.report(ran, i)
	return nil
}

package schedulers

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/internal/tier"
)

const (
	every = 200 * time.Millisecond // in real time
	ttl   = 2 * time.Second
	skew  = 2 * time.Second
)

// speeds has how fast the clocks of a host go: the ticks of gocron cannot be closer than a second.
var speeds = map[string]int{"gocron": 5, "cron": 1}

// started is a replica as the test sees it.
type started struct {
	*process.Process
	id int

	mu   sync.Mutex
	seen map[string][]int // the ticks of its reports, by their kind
	done chan struct{}    // closed when all reports are read
}

// start starts a replica.
func start(t *testing.T, id int, j job) *started {
	t.Helper()
	j.Speed = speeds[j.Host]
	j.Every = time.Duration(j.Speed) * every
	text, err := json.Marshal(j)
	require.NoError(t, err)
	cmd, err := process.Self(t.Context(), env, string(text))
	require.NoError(t, err)
	s := &started{Process: process.StartPiped(cmd), id: id, seen: map[string][]int{}, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		in := json.NewDecoder(s)
		for {
			var r report
			if in.Decode(&r) != nil {
				return
			}
			s.mu.Lock()
			s.seen[r.Kind] = append(s.seen[r.Kind], r.Tick)
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		s.Halt()
		<-s.done
		if t.Failed() {
			t.Logf("replica %d wrote: %s", s.id, s.Stderr())
		}
	})
	return s
}

// ticks returns the ticks of a kind of reports so far.
func (s *started) ticks(kind string) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.seen[kind]...)
}

// until waits for a report of a kind from each replica, for as long as they run ticks.
func until(t *testing.T, kind string, replicas ...*started) {
	t.Helper()
	for waits := true; waits; {
		before := runs(replicas)
		hang.Until(t, func() bool {
			waits = false
			for _, r := range replicas {
				select {
				case <-r.Done():
					t.Fatalf("replica %d has ended: %v", r.id, r.Err())
				default:
				}
				waits = waits || len(r.ticks(kind)) == 0
			}
			return !waits || runs(replicas) > before
		}, "all replicas are %s", kind)
	}
}

// runs counts the ticks that replicas have run.
func runs(replicas []*started) (all int) {
	for _, r := range replicas {
		all += len(r.ticks(ran))
	}
	return all
}

// begin gives the replicas the time of the first tick, which no clock has reached.
func begin(t *testing.T, replicas ...*started) {
	t.Helper()
	until(t, ready, replicas...)
	beginAt(t, time.Now().Add(skew+2*time.Second).Truncate(time.Second), replicas...)
}

// beginAt gives replicas that are ready the time of the first tick.
func beginAt(t *testing.T, first time.Time, replicas ...*started) {
	t.Helper()
	for _, r := range replicas {
		require.NoError(t, json.NewEncoder(r).Encode(first))
	}
}

// stop shuts replicas down, which must succeed, and log nothing.
func stop(t *testing.T, replicas ...*started) {
	t.Helper()
	logged := map[*started]string{}
	for _, r := range replicas {
		logged[r] = r.logged()
		r.CloseInput()
	}
	for _, r := range replicas {
		require.NoError(t, r.Wait(), "%s", r.Stderr())
		assert.Equal(t, logged[r], r.logged(), "replica %d", r.id)
	}
}

// logged returns what a replica has logged, without what a session may log at any time because the
// machine is slow: that etcd does not answer.
func (s *started) logged() string {
	var lines []string
	for line := range strings.Lines(s.Stderr()) {
		if !strings.Contains(line, " WARN etcd: ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// newEtcd starts an etcd with its usual times, in a process that the race detector does not slow
// down: with shorter ones it serves nothing on a busy machine.
func newEtcd(t *testing.T) *etcdtest.Cluster {
	t.Helper()
	return etcdtest.New(t, &etcdtest.Options{Processes: true, Tick: 100 * time.Millisecond, Election: time.Second})
}

// onHosts runs a test for each scheduler.
func onHosts(t *testing.T, test func(t *testing.T, host string)) {
	t.Helper()
	for _, host := range []string{"gocron", "cron"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			test(t, host)
		})
	}
}

// assertEachOnce checks that the work of each tick was done to its end once. A host that is late
// leaves ticks out: it begins fewer runs, each of which is of another tick. A tick may be left out by
// all live replicas, so not more ticks may be missing than the host with the most runs has left out.
func assertEachOnce(t *testing.T, ticks int, replicas ...*started) {
	t.Helper()
	done := make([]int, ticks)
	left := ticks
	for _, r := range replicas {
		for _, i := range r.ticks(ran) {
			done[i]++
		}
		left = min(left, max(0, ticks-len(r.ticks(tried))))
		t.Logf("replica %d ran %d of %d ticks, and tried %d", r.id, len(r.ticks(ran)), ticks, len(r.ticks(tried)))
	}
	missed := 0
	for i, n := range done {
		if n == 0 {
			missed++
		}
		assert.LessOrEqual(t, n, 1, "tick %d", i)
	}
	assert.LessOrEqual(t, missed, left, "ticks that no replica has run, of those that each host has left out")
	require.Less(t, missed, ticks/2, "the machine is too slow to judge anything")
}

func TestEachTickRunsOnceWithClocksApart(t *testing.T) {
	ticks := 10
	if tier.All() {
		ticks = 1000
	}
	onHosts(t, func(t *testing.T, host string) {
		etcd := newEtcd(t)
		var replicas []*started
		for i := range 3 {
			replicas = append(replicas, start(t, i, job{
				Host: host, Endpoints: etcd.Endpoints(), TTL: hang.Guard, Skew: time.Duration(i-1) * skew, Ticks: ticks, Sticks: -1,
			}))
		}
		begin(t, replicas...)
		until(t, idle, replicas...)
		stop(t, replicas...)

		assertEachOnce(t, ticks, replicas...)
	})
}

func TestATickWhoseReplicaDiesRunsOnAnother(t *testing.T) {
	tier.Seldom(t)
	const ticks, at = 100, 20
	onHosts(t, func(t *testing.T, host string) {
		etcd := newEtcd(t)
		var replicas []*started
		for i := range 3 {
			j := job{Host: host, Endpoints: etcd.Endpoints(), TTL: hang.Guard, Ticks: ticks, Sticks: -1}
			if i == 0 { // its clock is first
				j.TTL, j.Skew, j.Sticks = ttl, skew, at
			}
			replicas = append(replicas, start(t, i, j))
		}
		begin(t, replicas...)
		dies := replicas[0]
		hang.Until(t, func() bool { // it has begun the tick, and does not end it
			begun := dies.ticks(began)
			return len(begun) > 0 && begun[len(begun)-1] >= at
		}, "the replica has begun")
		dies.Halt()
		<-dies.done
		until(t, idle, replicas[1:]...)
		stop(t, replicas[1:]...)

		assertEachOnce(t, ticks, replicas...)
		assert.Contains(t, dies.ticks(began), at)
		assert.NotContains(t, dies.ticks(ran), at)
	})
}

// A busy machine may be slow in one attempt: of several, one has to be quick.
func TestTheNextLeaderMissesFewTicks(t *testing.T) {
	attempts, most := 2, int((ttl+time.Second)/every)
	if tier.All() {
		attempts = 10
	}
	onHosts(t, func(t *testing.T, host string) {
		etcd := newEtcd(t)
		observer, err := etcdbackend.Open(t.Context(), etcd.Client(t), nil)
		require.NoError(t, err)
		defer observer.Close()
		missed := most + 1
		for range attempts {
			var replicas []*started
			for i, d := range []time.Duration{ttl, hang.Guard, hang.Guard} {
				replicas = append(replicas, start(t, i, job{Host: host, Elector: true, Endpoints: etcd.Endpoints(), TTL: d, Ticks: 1 << 20}))
			}
			until(t, ready, replicas...)
			dies, rest := replicas[0], replicas[1:]
			first := time.Now().Truncate(time.Second)
			beginAt(t, first, dies)
			until(t, ran, dies)
			beginAt(t, first, rest...)
			hang.Until(t, func() bool {
				q, err := observer.Queue(t.Context(), "scheduler")
				return err == nil && len(q) == len(replicas)
			}, "all are candidates")
			dies.Halt()
			<-dies.done
			early := runs(rest) > 0
			hang.Until(t, func() bool { return runs(rest) > 0 }, "another leads")
			last := dies.ticks(ran)
			next := append(rest[0].ticks(ran), rest[1].ticks(ran)...)
			stop(t, rest...)
			if early { // the machine was so slow that the leader had lost its session before
				continue
			}
			missed = next[0] - last[len(last)-1] - 1
			t.Logf("%d ticks of %v were missed", missed, every)
			if missed <= most {
				break
			}
		}

		assert.LessOrEqual(t, missed, most)
		assert.Positive(t, missed, "the lock of a dead leader goes when its TTL has passed")
	})
}

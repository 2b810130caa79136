package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
)

func parseKinds(list string) ([]stand.Kind, error) {
	var kinds []stand.Kind
	for name := range strings.SplitSeq(list, ",") {
		k, err := stand.ParseKind(name)
		if err != nil {
			return nil, fmt.Errorf("-cluster: %w", err)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func parseSizes(list string) ([]int, error) {
	var sizes []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-sizes: %q is no number of contenders", text)
		}
		if !slices.Contains(sizes, n) {
			sizes = append(sizes, n)
		}
	}
	return sizes, nil
}

// An amount is how much is measured.
type amount int

const (
	usual amount = iota // what the goals need, on their clusters
	quick               // only to see that everything works
	full                // everything
)

// A plan is how much each scenario measures.
type plan struct {
	rounds int
	only   []stand.Kind // nil is the clusters of each scenario

	alone struct {
		clusters []stand.Kind
		blocks   int // A B A B … in one round
		cycles   int // lock + unlock in one block
	}
	churn struct {
		clusters []stand.Kind
		sizes    []int
		time     time.Duration // for each contestant in a round
		hold     time.Duration // of each acquisition
	}
	line linePlan
	far  struct {
		clusters    []stand.Kind
		hold        time.Duration
		size, lines int
	}
	pass struct {
		clusters []stand.Kind // apart from each other only in the round trip
		size     int
		time     time.Duration // of a loop of each contestant in a round
	}
	requests struct {
		size int
		hold time.Duration
	}
	sharing sharingPlan
	free    struct {
		sizes []int // numbers of holders
		times int
	}
	memory struct {
		ours     int // waiters, of ours only: with the peer's it takes minutes
		waiters  int
		sessions int  // waiters with a session each
		process  bool // the server has a process of its own
		settle   time.Duration
	}
	history struct{ past, workers, cycles int }
	rest    struct {
		clusters []stand.Kind
		waiters  int
		time     time.Duration
	}
	crowd struct {
		clusters          []stand.Kind
		waiters, sessions int
		time              time.Duration
	}
	wear struct {
		clusters []stand.Kind
		past     int
		open     time.Duration // of the snapshot; 0 for past acquisitions
	}
	roll struct {
		clusters    []stand.Kind
		times       int // of each script in a round
		atOnce      int
		least, most time.Duration // of each pause
	}
	metrics struct { // as those of alone
		clusters       []stand.Kind
		blocks, cycles int
	}
}

// A linePlan is the plan for the scenario line.
type linePlan struct {
	clusters []stand.Kind
	sizes    []int
	together []int         // sizes for the contestants in one process only
	handOffs int           // at least so many in a round, by repeating short queues
	split    int           // rounds with fewer waiters than that are split into so many shorter ones
	peers    int           // at most so many waiters of the peer
	bound    int           // at most so many hand-offs, then the other waiters are stopped
	settle   time.Duration // how long nothing must happen before the first release
}

// quietTime is how long nothing must happen before a release is counted. A waiter has its own entry
// watched after 250 ms, and a holder after 50 ms; no release causes these requests.
const quietTime = 300 * time.Millisecond

// A sharingPlan is the plan for the scenario sharing. It counts, so it measures once.
type sharingPlan struct {
	sizes    []int // numbers of waiters, of ours
	peers    []int // and of the peer, whose clients can be large: each waiter has one
	limits   []int // of semaphores
	rapid    int   // the limit of the semaphore whose releases follow without a pause
	writers  int   // the number of writers that wait ahead of the readers
	releases int   // the number of releases that are counted one by one
	settle   time.Duration
}

// times returns into how many rounds a round is split for queues of that length.
func (p *linePlan) times(length int) int {
	if length < p.handOffs {
		return p.split
	}
	return 1
}

// on returns the kinds of cluster to measure on, where kinds are the usual ones.
func (p *plan) on(kinds []stand.Kind) []stand.Kind {
	if p.only == nil {
		return kinds
	}
	return p.only
}

// farClusters returns the requested kinds with an added round trip, because the scenario far means
// nothing without. If no such kind was requested, it returns those of the plan.
func (p *plan) farClusters() []stand.Kind {
	kinds := slices.DeleteFunc(slices.Clone(p.only), func(k stand.Kind) bool { return k.RTT() == 0 })
	if len(kinds) == 0 {
		return p.far.clusters
	}
	return kinds
}

// etcdPlan takes at most ten minutes; with everything, at most an hour.
func etcdPlan(a amount) plan {
	if a == quick {
		return quickPlan()
	}
	p := plan{rounds: 3}
	p.alone.clusters, p.alone.blocks, p.alone.cycles = usualKinds(), 10, 40
	p.churn.clusters = []stand.Kind{stand.Single, stand.ThreeFsync}
	p.churn.sizes, p.churn.time = []int{2, 10, 100}, 2*time.Second
	p.line.clusters = []stand.Kind{stand.Single, stand.ThreeFsync}
	p.line.sizes, p.line.together = []int{2, 10, 100, 1000}, []int{10_000}
	p.line.handOffs, p.line.split = 40, 1
	p.line.peers, p.line.bound, p.line.settle = 1000, 500, quietTime
	p.far.clusters = []stand.Kind{stand.Single.Far(4 * time.Millisecond)}
	p.far.hold, p.far.size, p.far.lines = 12*time.Millisecond, 10, 3
	p.pass.clusters, p.pass.size, p.pass.time = passKinds(stand.Single), 100, 2*time.Second
	p.requests.size, p.requests.hold = 10, 25*time.Millisecond
	p.sharing = sharingPlan{
		sizes: []int{10, 50, 200}, peers: []int{10, 50}, limits: []int{1, 10, 1000}, rapid: 10, writers: 5, releases: 4,
		settle: quietTime,
	}
	p.free.sizes, p.free.times = []int{10, 1000}, 5
	p.memory.ours, p.memory.waiters, p.memory.sessions = 10_000, 1000, 500
	p.memory.process, p.memory.settle = true, time.Second
	p.history.past, p.history.workers, p.history.cycles = 100_000, 32, 200
	p.rollOn(stand.Single)
	p.metrics.clusters, p.metrics.blocks, p.metrics.cycles = []stand.Kind{stand.Single, stand.ThreeFsync}, 20, 200
	if a == full {
		p.fill()
	}
	return p
}

// zkPlan takes at most eight minutes. It has no history: names of nodes are never used again, and
// leave nothing behind in the servers.
func zkPlan(a amount) plan {
	if a == quick {
		return quickPlan()
	}
	p := etcdPlan(usual)
	p.alone.clusters = append(usualKinds(), stand.Single.Far(2*time.Millisecond), stand.Three.Far(2*time.Millisecond))
	p.far.clusters = []stand.Kind{stand.Single.Far(2 * time.Millisecond), stand.Single.Far(4 * time.Millisecond)}
	p.alone.cycles, p.churn.time = 25, 1500*time.Millisecond
	p.line.handOffs, p.line.split = 60, 3 // the two sides are close there
	p.line.settle = quietTime
	p.memory.settle = 500 * time.Millisecond
	p.memory.sessions = 100 // each with a connection, of which the peer's has 3 MiB of buffers
	if a == full {
		p.fill()
	}
	return p
}

// usualKinds are the kinds of cluster that make a difference on services that need a majority.
func usualKinds() []stand.Kind {
	return []stand.Kind{stand.Single, stand.SingleFsync, stand.Three, stand.ThreeFsync}
}

// passKinds are a kind of cluster, near and far.
func passKinds(near stand.Kind) []stand.Kind {
	kinds := []stand.Kind{near}
	for _, rtt := range []time.Duration{time.Millisecond, 4 * time.Millisecond, 16 * time.Millisecond} {
		kinds = append(kinds, near.Far(rtt))
	}
	return kinds
}

// pgPlan takes about half an hour, most of it for wear. The servers are on the disk, because
// nearly all the time of a request is that of its commit.
func pgPlan(a amount) plan {
	p := plan{rounds: 3}
	if a == quick {
		p = quickPlan()
		p.line.peers = 1000 // a peer has no entries without a waiter
		one := []stand.Kind{stand.Single}
		p.rest.clusters, p.rest.waiters, p.rest.time = one, 5, 2*time.Second
		p.wear.clusters, p.wear.past = one, 100
		return p
	}
	disk := []stand.Kind{stand.SingleFsync}
	p.alone.clusters = []stand.Kind{stand.SingleFsync, stand.TwoFsync, stand.SingleFsync.Far(4 * time.Millisecond)}
	p.alone.blocks, p.alone.cycles = 10, 40
	p.churn.clusters, p.churn.sizes, p.churn.time = disk, []int{2, 10, 100}, 5*time.Second
	p.line.clusters, p.line.sizes = disk, []int{1, 10, 100}
	p.line.handOffs, p.line.split, p.line.settle = 20, 1, quietTime
	p.line.peers, p.line.bound = 1000, 500
	p.far.clusters = []stand.Kind{stand.SingleFsync.Far(4 * time.Millisecond)}
	p.far.hold, p.far.size, p.far.lines = 12*time.Millisecond, 10, 3
	p.pass.clusters, p.pass.size, p.pass.time = passKinds(stand.SingleFsync), 100, 2*time.Second
	p.requests.size, p.requests.hold = 10, 25*time.Millisecond
	p.memory.ours, p.memory.waiters, p.memory.sessions, p.memory.settle = 10_000, 1000, 50, time.Second
	p.rollOn(stand.SingleFsync)
	p.rest.clusters, p.rest.waiters, p.rest.time = disk, 100, 20*time.Second
	p.wear.clusters, p.wear.past = disk, 100_000
	if a == full {
		p.rounds = 5
		p.churn.time = 10 * time.Second
		p.line.handOffs = 100
	}
	return p
}

// redisPlan takes about ten minutes. A hold takes a while in churn: a lock that is released as soon as it is
// acquired never meets a peer that waits for its next attempt.
func redisPlan(a amount) plan {
	p := plan{rounds: 3}
	one := []stand.Kind{stand.Single}
	if a == quick {
		p = quickPlan()
		p.line.peers = 1000 // a peer has no entries without a waiter
		p.churn.hold = time.Millisecond
		p.rest.clusters, p.rest.waiters, p.rest.time = one, 5, 2*time.Second
		p.crowd.clusters, p.crowd.waiters, p.crowd.sessions, p.crowd.time = one, 20, 2, time.Second
		return p
	}
	p.alone.clusters, p.alone.blocks, p.alone.cycles = one, 20, 100
	p.churn.clusters, p.churn.sizes = one, []int{2, 10, 100}
	p.churn.time, p.churn.hold = 1500*time.Millisecond, time.Millisecond
	p.line.clusters, p.line.sizes = one, []int{2, 10, 100}
	p.line.handOffs, p.line.split, p.line.settle = 20, 1, quietTime
	p.line.peers, p.line.bound = 1000, 500
	p.far.clusters = []stand.Kind{stand.Single.Far(4 * time.Millisecond)}
	p.far.hold, p.far.size, p.far.lines = 12*time.Millisecond, 10, 1
	p.pass.clusters, p.pass.size, p.pass.time = passKinds(stand.Single), 100, 1500*time.Millisecond
	p.requests.size, p.requests.hold = 10, 25*time.Millisecond
	p.memory.ours, p.memory.waiters, p.memory.sessions, p.memory.settle = 10_000, 100, 50, time.Second
	p.rollOn(stand.Single)
	p.rest.clusters, p.rest.waiters, p.rest.time = one, 100, 20*time.Second
	p.crowd.clusters, p.crowd.waiters, p.crowd.sessions, p.crowd.time = one, 10_000, 10, 10*time.Second
	if a == full {
		p.rounds = 5
		p.churn.time = 5 * time.Second
		p.line.handOffs = 100
	}
	return p
}

// memPlan takes at most a few minutes. Only the library and its callers take time there.
func memPlan(a amount) plan {
	if a == quick {
		return quickPlan()
	}
	p := plan{rounds: 3}
	one := []stand.Kind{stand.Single}
	p.alone.clusters, p.alone.blocks, p.alone.cycles = one, 10, 1000
	p.churn.clusters, p.churn.sizes, p.churn.time = one, []int{2, 10, 100}, time.Second
	p.line.clusters, p.line.together = one, []int{10, 100, 1000, 10_000}
	p.line.handOffs, p.line.split, p.line.bound, p.line.settle = 100, 1, 10_000, quietTime
	p.metrics.clusters, p.metrics.blocks, p.metrics.cycles = one, 20, 2000
	if a == full {
		p.rounds = 5
	}
	return p
}

// rollOn plans roll-outs on a kind of cluster.
func (p *plan) rollOn(kind stand.Kind) {
	p.roll.clusters, p.roll.times, p.roll.atOnce = []stand.Kind{kind}, 30, 10
	p.roll.least, p.roll.most = time.Second, 2*time.Second
}

// fill extends a usual plan to everything.
func (p *plan) fill() {
	p.rounds = 5
	p.churn.clusters, p.churn.time = usualKinds(), 5*time.Second
	p.line.clusters, p.line.handOffs, p.line.peers, p.line.bound = usualKinds(), 200, 10_000, 10_000
	p.memory.ours, p.memory.waiters = 0, 10_000
}

// quickPlan has tiny sizes.
func quickPlan() plan {
	p := plan{rounds: 1}
	one := []stand.Kind{stand.Single}
	p.alone.clusters, p.alone.blocks, p.alone.cycles = one, 2, 10
	p.churn.clusters, p.churn.sizes, p.churn.time = one, []int{2}, 300*time.Millisecond
	p.line.clusters, p.line.sizes, p.line.together = one, []int{2, 5}, []int{40}
	p.line.handOffs, p.line.split = 4, 1
	p.line.peers, p.line.bound, p.line.settle = 30, 20, 20*time.Millisecond
	p.far.clusters = []stand.Kind{stand.Single.Far(2 * time.Millisecond)}
	p.far.hold, p.far.size, p.far.lines = 5*time.Millisecond, 3, 1
	p.pass.clusters, p.pass.size, p.pass.time = append(one, p.far.clusters...), 3, 100*time.Millisecond
	p.requests.size, p.requests.hold = 4, 20*time.Millisecond
	p.sharing = sharingPlan{
		sizes: []int{7}, peers: []int{7}, limits: []int{1, 3}, rapid: 2, writers: 3, releases: 6,
		settle: quietTime,
	}
	p.free.sizes, p.free.times = []int{7}, 2
	p.memory.waiters, p.memory.sessions, p.memory.settle = 50, 5, 100*time.Millisecond
	p.rollOn(stand.Single)
	p.roll.times, p.roll.atOnce = 2, 2
	p.roll.least, p.roll.most = 30*time.Millisecond, 60*time.Millisecond
	p.history.past, p.history.workers, p.history.cycles = 200, 8, 10
	p.metrics.clusters, p.metrics.blocks, p.metrics.cycles = one, 2, 10
	return p
}

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

// An amount is how much is wanted of everything.
type amount int

const (
	usual amount = iota // the goals, on the clusters that they name
	quick               // shows that everything works
	full                // leaves nothing out
)

// A plan says how much of everything is measured.
type plan struct {
	rounds int
	only   []stand.Kind // nil is as each scenario says

	alone struct {
		clusters []stand.Kind
		blocks   int // A B A B … in one round
		cycles   int // lock + unlock in one block
	}
	churn struct {
		clusters []stand.Kind
		sizes    []int
		time     time.Duration // for each contestant in a round
	}
	line linePlan
	far  struct {
		clusters    []stand.Kind
		hold        time.Duration
		size, lines int
	}
	requests struct {
		size int
		hold time.Duration
	}
	sharing sharingPlan
	free    struct {
		sizes []int // of those who hold
		times int
	}
	memory struct {
		ours     int // waiters of ours only: with the peer's it takes minutes
		waiters  int
		sessions int  // waiters with a session each
		process  bool // the server has a process of its own
		settle   time.Duration
	}
	history struct{ past, workers, cycles int }
	metrics struct{ blocks, cycles int } // as alone
}

// A linePlan is the plan for lines.
type linePlan struct {
	clusters []stand.Kind
	sizes    []int
	together []int         // sizes for goroutines of one process only
	handOffs int           // at least so many in a round, by repeating short lines
	split    int           // shorter lines than that have so many times as many rounds, with as many times fewer hand-offs
	peers    int           // no more waiters of the peer than so many
	bound    int           // no more hand-offs than so many: what is left of a line goes home
	settle   time.Duration // how long nothing must happen before the first release
}

// calm is how long nothing must happen until a release is counted. A waiter has its own
// entry watched after 250 ms, and a holder after 50 ms, which no release causes.
const calm = 300 * time.Millisecond

// A sharingPlan is the plan for locks of which more is known than that one has
// them. It counts, so once is enough.
type sharingPlan struct {
	sizes    []int // of those who wait, ours
	peers    []int // and the peer's: each has a client, and some have large ones
	limits   []int // of semaphores
	rapid    int   // the limit of one where releases follow upon each other
	writers  int   // who wait before readers
	releases int   // that are counted one by one
	settle   time.Duration
}

// times is into how many rounds each round is split for lines of that length.
func (p *linePlan) times(length int) int {
	if length < p.handOffs {
		return p.split
	}
	return 1
}

// on returns the kinds of cluster to measure on.
func (p *plan) on(kinds []stand.Kind) []stand.Kind {
	if p.only == nil {
		return kinds
	}
	return p.only
}

// farAway returns those of them with a round trip added to the network, for what
// means nothing without; if none was asked for, the plan's.
func (p *plan) farAway() []stand.Kind {
	kinds := slices.DeleteFunc(slices.Clone(p.only), func(k stand.Kind) bool { return k.RTT() == 0 })
	if len(kinds) == 0 {
		return p.far.clusters
	}
	return kinds
}

// etcdPlan fits into ten minutes, and fully into an hour.
func etcdPlan(a amount) plan {
	if a == quick {
		return quickPlan()
	}
	p := plan{rounds: 3}
	p.alone.clusters, p.alone.blocks, p.alone.cycles = stand.Kinds(), 10, 40
	p.churn.clusters = []stand.Kind{stand.Single, stand.ThreeFsync}
	p.churn.sizes, p.churn.time = []int{2, 10, 100}, 2*time.Second
	p.line.clusters = []stand.Kind{stand.Single, stand.ThreeFsync}
	p.line.sizes, p.line.together = []int{2, 10, 100, 1000}, []int{10_000}
	p.line.handOffs, p.line.split = 40, 1
	p.line.peers, p.line.bound, p.line.settle = 1000, 500, calm
	p.far.clusters = []stand.Kind{stand.Single.Far(4 * time.Millisecond)}
	p.far.hold, p.far.size, p.far.lines = 12*time.Millisecond, 10, 3
	p.requests.size, p.requests.hold = 10, 25*time.Millisecond
	p.sharing = sharingPlan{
		sizes: []int{10, 50, 200}, peers: []int{10, 50}, limits: []int{1, 10, 1000}, rapid: 10, writers: 5, releases: 4,
		settle: calm,
	}
	p.free.sizes, p.free.times = []int{10, 1000}, 5
	p.memory.ours, p.memory.waiters, p.memory.sessions = 10_000, 1000, 500
	p.memory.process, p.memory.settle = true, time.Second
	p.history.past, p.history.workers, p.history.cycles = 100_000, 32, 200
	p.metrics.blocks, p.metrics.cycles = 20, 200
	if a == full {
		p.fill()
	}
	return p
}

// zkPlan fits into eight minutes. It has no history: names of nodes are never
// used again and leave nothing behind in the servers.
func zkPlan(a amount) plan {
	if a == quick {
		return quickPlan()
	}
	p := etcdPlan(usual)
	p.alone.clusters = append(stand.Kinds(), stand.Single.Far(2*time.Millisecond), stand.Three.Far(2*time.Millisecond))
	p.far.clusters = []stand.Kind{stand.Single.Far(2 * time.Millisecond), stand.Single.Far(4 * time.Millisecond)}
	p.alone.cycles, p.churn.time = 25, 1500*time.Millisecond
	p.line.handOffs, p.line.split = 60, 3 // both sides are close there
	p.line.settle = calm
	p.memory.settle = 500 * time.Millisecond
	p.memory.sessions = 100 // with a connection each, and the peer's has 3 MiB of buffers
	if a == full {
		p.fill()
	}
	return p
}

// memPlan fits into a few minutes. Nothing takes time there but the library and its callers.
func memPlan(a amount) plan {
	if a == quick {
		return quickPlan()
	}
	p := plan{rounds: 3}
	one := []stand.Kind{stand.Single}
	p.alone.clusters, p.alone.blocks, p.alone.cycles = one, 10, 1000
	p.churn.clusters, p.churn.sizes, p.churn.time = one, []int{2, 10, 100}, time.Second
	p.line.clusters, p.line.together = one, []int{10, 100, 1000, 10_000}
	p.line.handOffs, p.line.split, p.line.bound, p.line.settle = 100, 1, 10_000, calm
	p.metrics.blocks, p.metrics.cycles = 20, 2000
	if a == full {
		p.rounds = 5
	}
	return p
}

// fill makes a usual plan leave nothing out.
func (p *plan) fill() {
	p.rounds = 5
	p.churn.clusters, p.churn.time = stand.Kinds(), 5*time.Second
	p.line.clusters, p.line.handOffs, p.line.peers, p.line.bound = stand.Kinds(), 200, 10_000, 10_000
	p.memory.ours, p.memory.waiters = 0, 10_000
}

// quickPlan is of tiny sizes.
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
	p.requests.size, p.requests.hold = 4, 20*time.Millisecond
	p.sharing = sharingPlan{
		sizes: []int{7}, peers: []int{7}, limits: []int{1, 3}, rapid: 2, writers: 3, releases: 6,
		settle: calm,
	}
	p.free.sizes, p.free.times = []int{7}, 2
	p.memory.waiters, p.memory.sessions, p.memory.settle = 50, 5, 100*time.Millisecond
	p.history.past, p.history.workers, p.history.cycles = 200, 8, 10
	p.metrics.blocks, p.metrics.cycles = 2, 10
	return p
}

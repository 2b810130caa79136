package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A clusterKind is a kind of etcd to measure on.
type clusterKind string

const (
	single      clusterKind = "single"       // one member that does not wait for the disk
	singleFsync clusterKind = "single-fsync" // one member that does, as etcd comes
	three       clusterKind = "three"
	threeFsync  clusterKind = "three-fsync"
)

func allClusters() []clusterKind { return []clusterKind{single, singleFsync, three, threeFsync} }

func clusterNames() []string {
	var names []string
	for _, c := range allClusters() {
		names = append(names, string(c))
	}
	return names
}

func parseClusters(list string) ([]clusterKind, error) {
	var kinds []clusterKind
	for name := range strings.SplitSeq(list, ",") {
		k := clusterKind(strings.TrimSpace(name))
		if !slices.Contains(allClusters(), k) {
			return nil, fmt.Errorf("-cluster: %q is none of %s", name, strings.Join(clusterNames(), ", "))
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// A plan says how much of everything is measured.
type plan struct {
	rounds int
	only   []clusterKind // nil is as each scenario says

	alone struct {
		clusters []clusterKind
		blocks   int // A B A B … in one round
		cycles   int // lock + unlock in one block
	}
	churn struct {
		clusters []clusterKind
		sizes    []int
		time     time.Duration // for each contestant in a round
	}
	line struct {
		clusters []clusterKind
		sizes    []int
		together []int         // sizes for goroutines of one process only
		handOffs int           // at least so many in a round, by repeating short lines
		peers    int           // no more waiters of the peer than so many
		bound    int           // and no more than so many: what is left of a line goes home
		settle   time.Duration // how long nothing must happen before the first release
	}
	far struct {
		oneWay, hold time.Duration
		size, lines  int
	}
	requests struct {
		size int
		hold time.Duration
	}
	memory struct {
		ours     int // waiters of ours only: with the peer's it takes minutes
		waiters  int
		sessions int  // waiters with a session each
		process  bool // the server has a process of its own
		settle   time.Duration
	}
	history struct{ past, workers, cycles int }
}

// on returns the kinds of cluster to measure on.
func (p *plan) on(kinds []clusterKind) []clusterKind {
	if p.only == nil {
		return kinds
	}
	return p.only
}

// defaultPlan fits into ten minutes: the goals, on the clusters that they name.
func defaultPlan() plan {
	p := plan{rounds: 3}
	p.alone.clusters, p.alone.blocks, p.alone.cycles = allClusters(), 10, 40
	p.churn.clusters = []clusterKind{single, threeFsync}
	p.churn.sizes, p.churn.time = []int{2, 10, 100}, 2*time.Second
	p.line.clusters = []clusterKind{single, threeFsync}
	p.line.sizes, p.line.together = []int{2, 10, 100, 1000}, []int{10_000}
	p.line.handOffs, p.line.peers, p.line.bound, p.line.settle = 40, 1000, 500, 150*time.Millisecond
	p.far.oneWay, p.far.hold, p.far.size, p.far.lines = 2*time.Millisecond, 12*time.Millisecond, 10, 3
	p.requests.size, p.requests.hold = 10, 25*time.Millisecond
	p.memory.ours, p.memory.waiters, p.memory.sessions = 10_000, 1000, 500
	p.memory.process, p.memory.settle = true, time.Second
	p.history.past, p.history.workers, p.history.cycles = 100_000, 32, 200
	return p
}

// fullPlan leaves nothing out.
func fullPlan() plan {
	p := defaultPlan()
	p.rounds = 5
	p.churn.clusters, p.churn.time = allClusters(), 5*time.Second
	p.line.clusters, p.line.handOffs, p.line.peers, p.line.bound = allClusters(), 200, 10_000, 10_000
	p.memory.ours, p.memory.waiters = 0, 10_000
	return p
}

// quickPlan shows that everything works.
func quickPlan() plan {
	p := plan{rounds: 1}
	one := []clusterKind{single}
	p.alone.clusters, p.alone.blocks, p.alone.cycles = one, 2, 10
	p.churn.clusters, p.churn.sizes, p.churn.time = one, []int{2}, 300*time.Millisecond
	p.line.clusters, p.line.sizes, p.line.together = one, []int{2, 5}, []int{40}
	p.line.handOffs, p.line.peers, p.line.bound, p.line.settle = 4, 30, 20, 20*time.Millisecond
	p.far.oneWay, p.far.hold, p.far.size, p.far.lines = time.Millisecond, 5*time.Millisecond, 3, 1
	p.requests.size, p.requests.hold = 4, 20*time.Millisecond
	p.memory.waiters, p.memory.sessions, p.memory.settle = 50, 5, 100*time.Millisecond
	p.history.past, p.history.workers, p.history.cycles = 200, 8, 10
	return p
}

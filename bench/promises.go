package main

import (
	"time"

	"github.com/fairlock/fairlock/bench/stand"
)

// etcdGoals are the promises of the design for etcd, in its order.
func etcdGoals() []goal {
	gs := []goal{{
		text: "lock + unlock, nobody else: time", scenario: "alone", metric: metricCycle,
		ours: stand.Ours, over: byPeer, atMost: true, limit: 1.0,
	}}
	for _, c := range []struct {
		kind   stand.Kind
		limits map[int]float64
	}{
		{stand.Single, map[int]float64{2: 40, 10: 12, 100: 1.3}},
		{stand.ThreeFsync, map[int]float64{2: 25, 10: 5, 100: 1.1}},
	} {
		for _, n := range []int{2, 10, 100} {
			gs = append(gs, goal{
				text: "churn: acquisitions per second", scenario: "churn", metric: metricRate, ours: stand.Ours,
				clusters: []stand.Kind{c.kind}, size: exactly(n), over: byPeer, limit: c.limits[n],
			})
		}
	}
	for _, ours := range []string{stand.Ours, stand.OursOneSession} {
		gs = append(gs, handOffGoal(ours, below(10), 1.0), handOffGoal(ours, from(10), 0.7))
	}
	gs = append(gs, flatGoal())
	for _, ours := range []string{stand.Ours, stand.OursOneSession} {
		gs = append(gs, farGoal(ours, 4*time.Millisecond, 0.4), requestsGoal(ours))
	}
	return append(append(gs, waiterGoals()...), sharingGoals()...)
}

// zkGoals are those for ZooKeeper. Of hand-offs the design says only that the peer
// is to be beaten.
func zkGoals() []goal {
	const rtt = 2 * time.Millisecond
	gs := []goal{{
		text: "lock + unlock, nobody else: time", scenario: "alone", metric: metricCycle,
		clusters: []stand.Kind{stand.Single.Far(rtt), stand.Three.Far(rtt)},
		ours:     stand.Ours, over: byPeer, atMost: true, limit: 0.7,
	}}
	for _, ours := range []string{stand.Ours, stand.OursOneSession} {
		gs = append(gs, handOffGoal(ours, nil, 1.0))
	}
	gs = append(gs, flatGoal())
	for _, ours := range []string{stand.Ours, stand.OursOneSession} {
		gs = append(gs, farGoal(ours, rtt, 1.0), farGoal(ours, 2*rtt, 1.0), requestsGoal(ours))
	}
	return append(append(gs, waiterGoals()...), sharingGoals()...)
}

// handOffGoal is for lines of some sizes.
func handOffGoal(ours string, size func(int) bool, limit float64) goal {
	g := goal{
		text: "hand-off: time", scenario: "line", metric: metricHandOffP50,
		ours: ours, size: size, over: byPeer, atMost: true, limit: limit,
	}
	if ours == stand.OursOneSession {
		g.text = "hand-off in one process: time"
	}
	return g
}

// flatGoal is that the length of a line does not matter.
func flatGoal() goal {
	return goal{
		text: "hand-off in one process: our time at 10 000 : at 10", scenario: "line", metric: metricHandOffP50,
		ours: stand.OursOneSession, size: exactly(10_000), over: bySize(10), atMost: true, limit: 1.5,
	}
}

func farGoal(ours string, rtt time.Duration, limit float64) goal {
	return goal{
		text: "hand-off at a round trip: time, " + ours, scenario: "far", metric: metricHandOffP50,
		ours: ours, clusters: []stand.Kind{stand.Single.Far(rtt)}, over: byPeer, atMost: true, limit: limit,
	}
}

func requestsGoal(ours string) goal {
	return goal{
		text: "requests from release to grant, " + ours, scenario: "requests", metric: metricMost,
		ours: ours, atMost: true, limit: 2,
	}
}

func waiterGoals() []goal {
	return []goal{
		{
			text: "heap of a waiter, bytes", scenario: "memory", metric: metricHeap,
			ours: stand.OursOneSession, atMost: true, limit: 4096,
		},
		{
			text: "goroutines of a waiter beside the caller's", scenario: "memory", metric: metricGoroutines,
			ours: stand.OursOneSession, atMost: true, limit: 1,
		},
	}
}

// sharingGoals are that it does not matter how many wait.
func sharingGoals() []goal {
	var gs []goal
	for _, use := range []string{
		useMutex, useSemaphore(1), useSemaphore(10), useSemaphore(1000), useWriters(5), useOldestReader, useNearestReader,
	} {
		for _, what := range []string{metricEvents, metricAll} {
			gs = append(gs, goal{
				text: use + ": " + what + " of a release at 200 : at 10", scenario: "sharing", metric: sharing{use: use}.metric(what),
				ours: stand.Ours, size: exactly(200), over: bySize(10), atMost: true, limit: 1.1,
			})
		}
	}
	for _, use := range []string{useSemaphore(1), useSemaphore(1000), useWriters(5)} {
		gs = append(gs, goal{
			text: use + ": events in vain of a release", scenario: "sharing", metric: sharing{use: use}.metric(metricInVain),
			ours: stand.Ours, size: exactly(200), atMost: true, limit: 2,
		})
	}
	return append(gs, goal{
		text: useRapid(10) + ": events of a release", scenario: "sharing", metric: sharing{use: useRapid(10)}.metric(metricEvents),
		ours: stand.Ours, size: exactly(200), atMost: true, limit: 6,
	})
}

package main

import (
	"time"

	"github.com/fairlock/fairlock/bench/pgstand"
	"github.com/fairlock/fairlock/bench/redisstand"
	"github.com/fairlock/fairlock/bench/stand"
)

// etcdGoals and zkGoals return the limits of the design, in its order.
func etcdGoals() []goal {
	return append(goals(aloneGoal(1.0, nil), farGoals(4*time.Millisecond, 0.4)), metricsGoals()...)
}

func zkGoals() []goal {
	const rtt = 2 * time.Millisecond
	return goals(aloneGoal(0.7, []stand.Kind{stand.Single.Far(rtt), stand.Three.Far(rtt)}),
		append(farGoals(rtt, 1.0), farGoals(2*rtt, 0.55)...))
}

// pgGoals compare with peers of which neither is fair. The advisory lock writes nothing to the disk.
func pgGoals() []goal {
	disk := []stand.Kind{stand.SingleFsync}
	return append([]goal{
		aloneGoal(1.4, disk),
		{
			text: "lock + unlock, no other client: requests", scenario: "alone", metric: metricPerLock,
			ours: stand.Ours, atMost: true, limit: 2.1,
		},
		{
			text: "hand-off between two processes: time, against an advisory lock", scenario: "line", metric: metricHandOffP50,
			ours: stand.Ours, size: exactly(1), over: by(pgstand.Advisory), atMost: true, limit: 3,
		},
		{
			text: "hand-off between two processes: time, against polling", scenario: "line", metric: metricHandOffP50,
			ours: stand.Ours, size: exactly(1), over: by(pgstand.Lease), atMost: true, limit: 0.1,
		},
		{
			text: "hand-off in one process: time, against an unlock with no waiter", scenario: "line", metric: metricHandOffP50,
			ours: stand.OursOneSession, over: byMetric(metricRelease), atMost: true, limit: 1.5,
		},
		{
			text: "churn: grants out of the order of the joins", scenario: "churn", metric: metricUnordered,
			ours: stand.Ours, atMost: true, limit: 0,
		},
		{
			// One look at the sessions that are waited for a second, a renewal in 12 s, and
			// a read of the watched entries in 10 s.
			text: "requests a second of 100 waiters at rest", scenario: "rest", metric: metricAtRest,
			ours: stand.OursOneSession, atMost: true, limit: 1.2,
		},
		{
			text: "lock + unlock: last thousand : first", scenario: "wear", metric: metricLast,
			ours: stand.Ours, over: byMetric(metricFirst), atMost: true, limit: 1.3,
		},
		{
			text: "lock + unlock with an open snapshot: last thousand : first", scenario: "wear", metric: metricNewest,
			ours: stand.Ours, over: byMetric(metricOldest), atMost: true, limit: 2,
		},
	}, waiterGoals()...)
}

// redisGoals compare with the fastest of the peers, each with several intervals between its attempts. None
// of them is fair. In a loop, most of their grants go to the contender that has just released.
func redisGoals() []goal {
	gs := []goal{
		{
			text: "lock + unlock, no other client: time", scenario: "alone", metric: metricCycle,
			ours: stand.Ours, fastest: redisstand.Peers(), atMost: true, limit: 3,
		},
		{
			text: "churn: turns of a contender, most less least", scenario: "churn", metric: metricTurns,
			ours: stand.Ours, atMost: true, limit: 1,
		},
		{
			text: "churn: grants out of the order of the joins", scenario: "churn", metric: metricUnordered,
			ours: stand.Ours, atMost: true, limit: 0,
		},
		{
			text: "churn: commands of the server, against redislock at 1 ms", scenario: "churn", metric: metricCommands,
			ours: stand.Ours, size: exactly(100), over: by(redisstand.RedislockFast), atMost: true, limit: 0.33,
		},
		{
			// A renewal a second, which looks at the sessions that are waited for, and a look at
			// the watched entries in 10 s.
			text: "requests a second of 100 waiters at rest", scenario: "rest", metric: metricAtRest,
			ours: stand.OursOneSession, atMost: true, limit: 1.2,
		},
		{
			text: "joins that a processor of the server has time for, their watches included", scenario: "crowd", metric: metricJoinsPerCPU,
			ours: crowdName, limit: 10_000,
		},
		{
			text: "connections of a process", scenario: "crowd", metric: metricConnections,
			ours: crowdName, atMost: true, limit: 3,
		},
	}
	for _, c := range []struct {
		size  func(int) bool
		limit float64
	}{{below(100), 1.2}, {from(100), 1}} {
		gs = append(gs, goal{
			text: "churn: unlock to the next grant", scenario: "churn", metric: metricGap,
			ours: stand.Ours, size: c.size, fastest: redisstand.Peers(), atMost: true, limit: c.limit,
		}, goal{
			text: "hand-off in a queue: time", scenario: "line", metric: metricHandOff,
			ours: stand.Ours, size: c.size, fastest: redisstand.Peers(), atMost: true, limit: c.limit,
		})
	}
	return append(append(gs, passGoals()...), waiterGoals()...)
}

// goals returns the goals of a service. Services differ only in the two given groups.
func goals(alone goal, far []goal) []goal {
	gs := []goal{alone, {
		text: "lock + unlock, no other client: time, against bare requests", scenario: "alone", metric: metricCycle,
		ours: stand.Ours, over: byBare, atMost: true, limit: 1.1,
	}}
	gs = append(gs, churnGoals()...)
	for _, ours := range []string{stand.Ours, stand.OursOneSession} {
		gs = append(gs, handOffGoal(ours, below(10), 1.0), handOffGoal(ours, from(10), 0.7))
	}
	gs = append(append(append(gs, flatGoal()), far...), passGoals()...)
	gs = append(gs, goal{
		text: "hand-off: time, against bare requests", scenario: "line", metric: metricHandOffP50,
		ours: stand.Ours, over: byBare, atMost: true, limit: 1.25,
	})
	for _, ours := range []string{stand.Ours, stand.OursOneSession} {
		gs = append(gs, requestsGoal(ours))
	}
	for _, use := range []string{useFreeReader, useFreePermit} {
		gs = append(gs, goal{
			text: "free, behind holders: " + metricRoundTrips(use), scenario: "free", metric: metricRoundTrips(use),
			ours: stand.Ours, atMost: true, limit: 3,
		})
	}
	return append(append(gs, waiterGoals()...), sharingGoals()...)
}

func aloneGoal(limit float64, clusters []stand.Kind) goal {
	return goal{
		text: "lock + unlock, no other client: time", scenario: "alone", metric: metricCycle,
		clusters: clusters, ours: stand.Ours, over: byPeer, atMost: true, limit: limit,
	}
}

// churnGoals compare separate sessions with the peer and with bare requests. The peer alone is no
// measure where it waits for a timer of the server. One session is none either: it passes the lock
// on without waiting for the server.
func churnGoals() []goal {
	var gs []goal
	add := func(text string, size func(int) bool, over func(*service, key) key, limit float64) {
		gs = append(gs, goal{
			text: "churn: acquisitions per second" + text, scenario: "churn", metric: metricRate,
			ours: stand.Ours, size: size, over: over, limit: limit,
		})
	}
	add("", nil, byPeer, 1.0)
	for _, c := range []struct {
		size  func(int) bool
		limit float64
	}{{below(10), 0.9}, {from(10), 0.85}} {
		add(", against bare requests", c.size, byBare, c.limit)
	}
	return gs
}

// handOffGoal is the goal for queues of some sizes.
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

// flatGoal is that a hand-off does not depend on the length of the queue.
func flatGoal() goal {
	return goal{
		text: "hand-off in one process: our time at 10 000 : at 10", scenario: "line", metric: metricHandOffP50,
		ours: stand.OursOneSession, size: exactly(10_000), over: bySize(10), atMost: true, limit: 1.5,
	}
}

// farGoals are for hand-offs with a round trip added.
func farGoals(rtt time.Duration, limit float64) []goal {
	var gs []goal
	for _, ours := range []string{stand.Ours, stand.OursOneSession} {
		gs = append(gs, goal{
			text: "hand-off at a round trip: time, " + ours, scenario: "far", metric: metricHandOffP50,
			ours: ours, clusters: []stand.Kind{stand.Single.Far(rtt)}, over: byPeer, atMost: true, limit: limit,
		})
	}
	return gs
}

// beforePassing is the last commit before locks were passed on inside a process.
const beforePassing = "002c357d"

// passGoals are that a hand-off in one process waits for no server.
func passGoals() []goal {
	const text, ours, rtt = "hand-off in one process: ", stand.OursOneSession, 4 * time.Millisecond
	return []goal{
		{
			text: text + "time, µs", scenario: "pass", metric: metricHandOffP50,
			ours: ours, clusters: []stand.Kind{stand.Single}, atMost: true, limit: 60,
		},
		{
			text: text + "time at a round trip", scenario: "pass", metric: metricHandOffP50,
			ours: ours, clusters: []stand.Kind{stand.Single.Far(rtt)}, over: byPeer, atMost: true, limit: 0.05,
		},
		{
			text: "loop in one process: acquisitions per second, against " + beforePassing, scenario: "pass", metric: metricRate,
			ours: ours, clusters: []stand.Kind{stand.Single.Far(rtt / 4), stand.Single.Far(rtt)},
			over: by(stand.OldName(ours, beforePassing)), limit: 2,
		},
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
			text: "goroutines of a waiter, without the caller's", scenario: "memory", metric: metricGoroutines,
			ours: stand.OursOneSession, atMost: true, limit: 1,
		},
	}
}

// metricsGoals are that hooks hardly slow a lock down on a service with servers.
func metricsGoals() []goal {
	var gs []goal
	for _, c := range observed() {
		gs = append(gs, goal{
			text: c.Name + ": time of lock + unlock, against none", scenario: "metrics", metric: metricObserved,
			ours: c.Name, atMost: true, limit: 1.02,
		})
	}
	return gs
}

// sharingGoals are that the cost of a release does not depend on the number of waiters.
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

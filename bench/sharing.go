package main

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

// What one release causes on average, until nothing happens any more.
const (
	metricEvents   = "events"
	metricInVain   = "events in vain" // to clients other than the releasing and the granted ones
	metricAll      = "requests, all clients"
	metricInvolved = "requests of those involved"
	metricAllBytes = "bytes, all clients"
)

// A sharing is a case in which many requests wait for releases.
type sharing struct {
	use     string
	job     func(waiters int) drive.Sharing
	curator func(size int) string // what the same recipe of Curator does
}

// metric returns the name of a figure of a sharing.
func (sh sharing) metric(what string) string { return sh.use + ": " + what }

// The uses of exclusive locks.
const (
	useMutex    = "mutex"
	useElection = "election"
)

// The uses of a read-write lock.
const (
	useReadersBehind = "write lock, readers behind"
	useOldestReader  = "read lock, a writer behind, oldest first"
	useNearestReader = "read lock, a writer behind, nearest first"
)

func useSemaphore(limit int) string { return fmt.Sprintf("semaphore of %d", limit) }

func useRapid(limit int) string { return useSemaphore(limit) + ", released without a pause" }

func useWriters(n int) string { return fmt.Sprintf("write lock, %d more and then readers behind", n) }

// holdersIn is the number of sessions of many holders. Waiters have a session each, as separate
// processes would have.
const holdersIn = 10

// sharings returns all cases.
func (p *sharingPlan) sharings() []sharing {
	all := []sharing{
		{
			use:     useMutex,
			job:     func(n int) drive.Sharing { return p.exclusive(drive.Mutex, n) },
			curator: func(int) string { return "1 event; 2 requests: each watches the one before it, and then lists" },
		},
		{
			use:     useElection,
			job:     func(n int) drive.Sharing { return p.exclusive(drive.Election, n) },
			curator: func(int) string { return "as its mutex, which LeaderSelector is" },
		},
	}
	for _, limit := range p.limits {
		all = append(all, p.permits(limit, false))
	}
	all = append(all, p.permits(p.rapid, true))
	return append(all, p.readers()...)
}

// exclusive is the job for an exclusive lock.
func (p *sharingPlan) exclusive(kind drive.RecipeKind, waiters int) drive.Sharing {
	return drive.Sharing{Holders: group(1, kind), Waiters: group(waiters, kind), Releases: p.releases, LetIn: 1, Settle: p.settle}
}

// group is a group of n contenders with a session each.
func group(n int, kind drive.RecipeKind) drive.Group {
	return drive.Group{N: n, Lock: drive.Recipe{Kind: kind}}
}

// permits is the case of a semaphore without free permits, whose holders have one permit each.
func (p *sharingPlan) permits(limit int, rapid bool) sharing {
	lock := drive.Recipe{Kind: drive.Permit, Limit: int64(limit)}
	sh := sharing{
		use: useSemaphore(limit),
		job: func(n int) drive.Sharing {
			g := drive.Sharing{
				Holders: drive.Group{N: limit, In: holdersIn, Lock: lock}, Waiters: drive.Group{N: n, Lock: lock},
				Releases: p.releases, LetIn: 1, Settle: p.settle,
			}
			if rapid {
				g.Rapid, g.Releases = true, n
			}
			return g
		},
		curator: func(int) string {
			return fmt.Sprintf("2 events, 1 in vain; 6 requests: one acquirer watches and lists %d leases, then the next", limit+1)
		},
	}
	if rapid {
		sh.use = useRapid(limit)
	}
	return sh
}

// readers returns the cases of a read-write lock.
func (p *sharingPlan) readers() []sharing {
	return []sharing{
		{
			use: useWriters(p.writers),
			job: func(n int) drive.Sharing {
				return drive.Sharing{
					Holders: group(1, drive.WriteLock), Before: group(p.writers, drive.WriteLock), Waiters: group(n, drive.ReadLock),
					Releases: p.writers - 1, LetIn: 1, Settle: p.settle,
				}
			},
			curator: func(n int) string {
				return fmt.Sprintf("%d events, %d in vain; %d requests: every reader watches the first writer", n+1, n, 2*n+2)
			},
		},
		{
			use: useReadersBehind,
			job: func(n int) drive.Sharing {
				return drive.Sharing{
					Holders: group(1, drive.WriteLock), Waiters: group(n, drive.ReadLock), Releases: 1, LetIn: n, Settle: p.settle,
				}
			},
			curator: func(n int) string {
				return fmt.Sprintf("%d events; %d requests: every reader watches the first writer", n, n+1)
			},
		},
		{
			use: useOldestReader,
			job: func(n int) drive.Sharing {
				return p.readersLeave(n)
			},
			curator: func(int) string { return "0 events; 1 request: a writer watches the one before it" },
		},
		{
			use: useNearestReader,
			job: func(n int) drive.Sharing {
				g := p.readersLeave(n)
				g.Nearest = true
				return g
			},
			curator: func(int) string { return "1 event, in vain; 3 requests: a writer watches the one before it" },
		},
	}
}

// readersLeave is the job in which some of the readers ahead of a writer release. The writer is not
// granted.
func (p *sharingPlan) readersLeave(readers int) drive.Sharing {
	return drive.Sharing{
		Holders: drive.Group{N: readers, In: holdersIn, Lock: drive.Recipe{Kind: drive.ReadLock}}, Waiters: group(1, drive.WriteLock),
		Releases: min(p.releases, readers-2), Settle: p.settle,
	}
}

// runSharing counts what a release causes. Each waiter has a client, so that the counts show which
// waiters get events.
func runSharing(ctx context.Context, b *bench) error {
	p := &b.plan.sharing
	return b.onServers(ctx, setting{Kind: stand.Single}, func(s *site) error {
		for _, c := range b.apart() {
			sizes, all := p.sizes, p.sharings()
			if !c.Ours {
				sizes, all = p.peers, all[:1] // the peer has only the first
			}
			need := maxContenders(all, sizes)
			err := withCrew(ctx, s, drive.Opening{Contestant: c, N: need, Clients: need}, func(crew drive.Crew) error {
				for _, sh := range all {
					for _, n := range sizes {
						if err := b.share(ctx, crew, c, sh, n); err != nil {
							return fmt.Errorf("%s: %s, %d waiters: %w", c.Name, sh.use, n, err)
						}
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// maxContenders returns the number of contenders that the largest job needs.
func maxContenders(all []sharing, sizes []int) int {
	most := 0
	for _, sh := range all {
		for _, n := range sizes {
			most = max(most, sh.job(n).Contenders())
		}
	}
	return most
}

// share measures one case at one size.
func (b *bench) share(ctx context.Context, crew drive.Crew, c stand.Contestant, sh sharing, n int) error {
	g := sh.job(n)
	r, err := crew.Do(ctx, drive.Job{Name: b.name("sharing"), Gather: &g})
	if err != nil {
		return err
	}
	k := key{Scenario: "sharing", Cluster: stand.Single, Size: n, Contestant: c.Name}
	add := func(what string, u unit, v int64) {
		k.Metric = sh.metric(what)
		b.record.add(k, u, float64(v)/float64(g.Releases))
	}
	w := r.Wake
	add(metricEvents, count, w.Events)
	add(metricAll, count, w.Requests)
	if !g.Rapid {
		add(metricInVain, count, w.InVain)
		add(metricInvolved, count, w.Involved)
	}
	if w.Bytes > 0 {
		add(metricAllBytes, octets, w.Bytes)
	}
	k.Metric = sh.metric(metricEvents)
	b.logMedians(k, []stand.Contestant{c})
	return nil
}

// sharingTable compares what releases cause with what is known of Curator.
func sharingTable(r *report) table.Writer {
	t := newTable()
	t.AppendHeader(table.Row{"what is released", "waiters", "events", "in vain", "requests", "of those involved", "bytes", "Curator's (on ZooKeeper)"})
	for _, sh := range r.plan.sharing.sharings() {
		for _, c := range r.service.apart() {
			for _, n := range r.plan.sharing.sizes {
				k := key{"sharing", stand.Single, n, c.Name, ""}
				cell := func(what string) string {
					k.Metric = sh.metric(what)
					f := r.record.get(k)
					if f != nil {
						return f.Unit.formatSpread(spreadOf(f.Rounds))
					}
					return ""
				}
				if cell(metricEvents) == "" {
					continue
				}
				use, curator := sh.use, sh.curator(n)
				if !c.Ours {
					use, curator = use+": "+r.service.Peer, ""
				}
				t.AppendRow(table.Row{
					use, n, cell(metricEvents), cell(metricInVain), cell(metricAll), cell(metricInvolved), cell(metricAllBytes), curator,
				})
			}
		}
	}
	if t.Length() == 0 {
		return nil
	}
	return t
}

// sharingNote explains the table. Curator's side was counted in its source. With InterProcessMutex
// and InterProcessReadWriteLock a waiter reads the node that it waits for, with a watch, and lists
// the folder when the watch fires. InterProcessSemaphoreV2 has a mutex for acquirers: its holder
// creates a lease and lists all leases, with a watch, until there are no more than the limit.
const sharingNote = "What one release causes on average, until nothing happens any more. Events are those of watches, at all clients together; " +
	"events in vain are those at clients other than the releasing and the granted ones. " +
	"Requests are those of all clients without what etcd's clients send periodically (progress requests, and cancels of watches " +
	"some seconds after their use); those of the involved clients are counted in the same way. Bytes include heartbeats. " +
	"One of our events goes to the releasing client, which watches its own entry. " +
	"Curator was not run: its counts follow from its source, and its holders watch nothing. " +
	"Its semaphore acquires the permits of one request one by one, each at this price.\n\n"

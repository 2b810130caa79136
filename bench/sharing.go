package main

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

// What one release causes until all is quiet, on average.
const (
	metricEvents   = "events"
	metricInVain   = "events in vain" // told to others than the one that gave back and those that were let in
	metricAll      = "requests, all clients"
	metricInvolved = "requests of those involved"
	metricHeard    = "bytes, all clients"
)

// A sharing is one way in which many wait for what one gives back.
type sharing struct {
	use       string
	gathering func(waiters int) drive.Gathering
	curator   func(size int) string // what Curator's counterpart does
}

// metric is what a figure of a sharing is called.
func (sh sharing) metric(what string) string { return sh.use + ": " + what }

// The uses of locks that one has at a time.
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

// holdersIn is over how many sessions many holders spread. Those who wait have a
// session each, as so many processes would have.
const holdersIn = 10

// sharings are all of them.
func (p *sharingPlan) sharings() []sharing {
	all := []sharing{
		{
			use:       useMutex,
			gathering: func(n int) drive.Gathering { return p.turns(drive.Mutex, n) },
			curator:   func(int) string { return "1 event; 2 requests: each watches the one before it, and then lists" },
		},
		{
			use:       useElection,
			gathering: func(n int) drive.Gathering { return p.turns(drive.Election, n) },
			curator:   func(int) string { return "as its mutex, which LeaderSelector is" },
		},
	}
	for _, limit := range p.limits {
		all = append(all, p.permits(limit, false))
	}
	all = append(all, p.permits(p.rapid, true))
	return append(all, p.readers()...)
}

// turns is a lock that one has at a time.
func (p *sharingPlan) turns(kind drive.RecipeKind, waiters int) drive.Gathering {
	return drive.Gathering{Holders: crowd(1, kind), Waiters: crowd(waiters, kind), Releases: p.releases, LetIn: 1, Settle: p.settle}
}

// crowd is so many with a session each.
func crowd(n int, kind drive.RecipeKind) drive.Crowd {
	return drive.Crowd{N: n, Lock: drive.Recipe{Kind: kind}}
}

// permits is a semaphore of which all permits are taken, by holders of one each.
func (p *sharingPlan) permits(limit int, rapid bool) sharing {
	lock := drive.Recipe{Kind: drive.Permit, Limit: int64(limit)}
	sh := sharing{
		use: useSemaphore(limit),
		gathering: func(n int) drive.Gathering {
			g := drive.Gathering{
				Holders: drive.Crowd{N: limit, In: holdersIn, Lock: lock}, Waiters: drive.Crowd{N: n, Lock: lock},
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

// readers are the ways of a read-write lock.
func (p *sharingPlan) readers() []sharing {
	return []sharing{
		{
			use: useWriters(p.writers),
			gathering: func(n int) drive.Gathering {
				return drive.Gathering{
					Holders: crowd(1, drive.WriteLock), Before: crowd(p.writers, drive.WriteLock), Waiters: crowd(n, drive.ReadLock),
					Releases: p.writers - 1, LetIn: 1, Settle: p.settle,
				}
			},
			curator: func(n int) string {
				return fmt.Sprintf("%d events, %d in vain; %d requests: every reader watches the first writer", n+1, n, 2*n+2)
			},
		},
		{
			use: useReadersBehind,
			gathering: func(n int) drive.Gathering {
				return drive.Gathering{
					Holders: crowd(1, drive.WriteLock), Waiters: crowd(n, drive.ReadLock), Releases: 1, LetIn: n, Settle: p.settle,
				}
			},
			curator: func(n int) string {
				return fmt.Sprintf("%d events; %d requests: every reader watches the first writer", n, n+1)
			},
		},
		{
			use: useOldestReader,
			gathering: func(n int) drive.Gathering {
				return p.leaving(n)
			},
			curator: func(int) string { return "0 events; 1 request: a writer watches the one before it" },
		},
		{
			use: useNearestReader,
			gathering: func(n int) drive.Gathering {
				g := p.leaving(n)
				g.Nearest = true
				return g
			},
			curator: func(int) string { return "1 event, in vain; 3 requests: a writer watches the one before it" },
		},
	}
}

// leaving are readers of whom some leave, before a writer: it stays where it is.
func (p *sharingPlan) leaving(readers int) drive.Gathering {
	return drive.Gathering{
		Holders: drive.Crowd{N: readers, In: holdersIn, Lock: drive.Recipe{Kind: drive.ReadLock}}, Waiters: crowd(1, drive.WriteLock),
		Releases: min(p.releases, readers-2), Settle: p.settle,
	}
}

// runSharing counts what a release causes among all who wait. Everybody who waits
// has a client, so that it is seen who is told.
func runSharing(ctx context.Context, b *bench) error {
	p := &b.plan.sharing
	return b.on(ctx, setting{Kind: stand.Single}, func(s *site) error {
		for _, c := range b.apart() {
			sizes, all := p.sizes, p.sharings()
			if !c.Ours {
				sizes, all = p.peers, all[:1] // all that it has
			}
			need := mostContenders(all, sizes)
			err := with(ctx, s, drive.Opening{Contestant: c, N: need, Clients: need}, func(crew drive.Crew) error {
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

// mostContenders is how many the largest gathering needs.
func mostContenders(all []sharing, sizes []int) int {
	most := 0
	for _, sh := range all {
		for _, n := range sizes {
			most = max(most, sh.gathering(n).Contenders())
		}
	}
	return most
}

// share counts one sharing at one size.
func (b *bench) share(ctx context.Context, crew drive.Crew, c stand.Contestant, sh sharing, n int) error {
	g := sh.gathering(n)
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
		add(metricHeard, octets, w.Bytes)
	}
	k.Metric = sh.metric(metricEvents)
	b.told(k, []stand.Contestant{c})
	return nil
}

// sharingTable puts what releases cause beside what is known of Curator.
func sharingTable(r *report) table.Writer {
	t := newTable()
	t.AppendHeader(table.Row{"what is given back", "waiters", "events", "in vain", "requests", "of those involved", "bytes", "Curator's (on ZooKeeper)"})
	for _, sh := range r.plan.sharing.sharings() {
		for _, c := range r.service.apart() {
			for _, n := range r.plan.sharing.sizes {
				k := key{"sharing", stand.Single, n, c.Name, ""}
				cell := func(what string) string {
					k.Metric = sh.metric(what)
					if f := r.record.get(k); f != nil {
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
					use, n, cell(metricEvents), cell(metricInVain), cell(metricAll), cell(metricInvolved), cell(metricHeard), curator,
				})
			}
		}
	}
	if t.Length() == 0 {
		return nil
	}
	return t
}

// sharingNote says how to read the table, and how Curator's side of it was
// counted: InterProcessMutex and InterProcessReadWriteLock let a waiter read the
// node that it waits for with a watch, and list the folder when that fires;
// InterProcessSemaphoreV2 has a mutex for acquirers, and who has that makes a
// lease and lists all leases, with a watch, until there are no more than may be.
const sharingNote = "What one release causes until all is quiet, on average. Events are those that watches tell all clients together, " +
	"in vain those to others than the one that gave back and those that were let in. " +
	"Requests are those of all clients without what etcd's clients send by the clock (progress requests, and cancels of watches " +
	"some seconds after they were of use); those involved are the same. Bytes include heartbeats. " +
	"One of ours is told to the one that gave back, who watches its own entry. " +
	"Nothing of Curator was run: its counts follow from its source, and its holders watch nothing. " +
	"Its semaphore takes the permits of one request one by one, each at this price.\n\n"

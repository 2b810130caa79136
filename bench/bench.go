package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

// bench is one run of the program on one service.
type bench struct {
	service
	plan     plan
	record   *record
	progress io.Writer
	start    time.Time
	names    int
	version  string // of the servers
	old      *old   // contestants run in its workers; nil is in this process
}

// A scenario is one way of using a lock.
type scenario struct {
	name  string
	about string
	size  string // what the size of a figure is the number of
	run   func(ctx context.Context, b *bench) error
}

func scenarios() []scenario {
	return []scenario{
		// memory is the first: the servers that the others start in this process leave more
		// garbage behind than it measures.
		{"memory", "what a waiter costs its process", "waiters", runMemory},
		{"alone", "lock and unlock, no other client", "contenders", runAlone},
		{"churn", "contenders that lock and unlock in a loop", "contenders", runChurn},
		{"requests", "what a hand-off costs the server", "waiters", runRequests},
		{"sharing", "what a release causes among the waiters", "waiters", runSharing},
		{"far", "hand-off with a round trip added to the network", "waiters", runFar},
		{"pass", "hand-offs and a loop inside one process, over the round trip", "contenders", runPass},
		{"free", "a read lock and a permit that are free, behind many holders", "holders", runFree},
		{"line", "hand-off down a line of waiters", "waiters", runLine},
		{"roll", "a leader while its program is rolled out", "replicas", runRoll},
		{"metrics", "lock and unlock with metrics and traces, no other client", "contenders", runMetrics},
		{"history", "lock and unlock after past acquisitions, without compaction", "past", runHistory},
		{"rest", "what waiters send while nothing happens", "waiters", runRest},
		{"crowd", "many waiters of several processes in one queue", "waiters", runCrowd},
		{"wear", "lock and unlock after past acquisitions, with vacuum", "past", runWear},
	}
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// run runs the wanted scenarios. It logs each error at once and returns all errors at the end, so
// that the other scenarios still run.
func (b *bench) run(ctx context.Context, wanted func(name string) bool) error {
	var err error
	for _, s := range scenarios() {
		if !slices.Contains(b.scenarios, s.name) || !wanted(s.name) || ctx.Err() != nil {
			continue
		}
		b.log("%s: %s", s.name, s.about)
		var e error
		pprof.Do(ctx, pprof.Labels("scenario", s.name), func(ctx context.Context) { e = s.run(ctx, b) })
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %s: %w", b.flag, s.name, e))
			b.log("%s failed: %v", s.name, e)
		}
	}
	return err
}

// log writes a message about the progress.
func (b *bench) log(format string, args ...any) {
	fmt.Fprintf(b.progress, "%4s %6.1fs  %s\n", b.flag, time.Since(b.start).Seconds(), fmt.Sprintf(format, args...))
}

// name returns the name of an unused lock.
func (b *bench) name(kind string) string {
	b.names++
	return fmt.Sprintf("%s-%d", kind, b.names)
}

// onServers runs f on new servers.
func (b *bench) onServers(ctx context.Context, want setting, f func(*site) error) error {
	started, err := b.servers(ctx, want)
	if err != nil {
		return err
	}
	b.version = started.version
	s := &site{service: b.Service, at: started.at, old: b.old}
	err = s.attach(ctx)
	if err == nil {
		err = f(s)
	}
	return errors.Join(err, s.close(), started.close())
}

// withCrew runs f with a crew, and closes the crew.
func withCrew(ctx context.Context, s *site, o drive.Opening, f func(drive.Crew) error) error {
	return labelled(ctx, o.Contestant, func(ctx context.Context) error {
		c, err := s.open(ctx, o)
		if err != nil {
			return err
		}
		return errors.Join(f(c), c.Close(ctx))
	})
}

// labelled runs f with the contestant's name as a label for the profile.
func labelled(ctx context.Context, c stand.Contestant, f func(context.Context) error) (err error) {
	pprof.Do(ctx, pprof.Labels("contestant", c.Name), func(ctx context.Context) { err = f(ctx) })
	return err
}

// maxClients bounds the clients that contenders with a session each use.
const maxClients = 10

// rounds runs f for each contestant in turn, n times. Every second round has the opposite order, so
// that a machine that becomes slower or faster favours no contestant.
func rounds(ctx context.Context, n int, cs []stand.Contestant, f func(stand.Contestant) error) error {
	for round := range n {
		order := slices.Clone(cs)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, c := range order {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(c); err != nil {
				return fmt.Errorf("%s: round %d: %w", c.Name, round+1, err)
			}
		}
	}
	return nil
}

// logMedians logs the medians of one metric, of all contestants.
func (b *bench) logMedians(k key, cs []stand.Contestant) {
	var parts []string
	for _, c := range cs {
		f := b.record.versus(k, c.Name)
		if f != nil {
			parts = append(parts, c.Name+" "+f.Unit.format(spreadOf(f.Rounds).Median))
		}
	}
	b.log("  %s, %d: %s: %s", k.Cluster, k.Size, k.Metric, strings.Join(parts, "; "))
}

// toMicros converts durations to microseconds, the unit of the record.
func toMicros(ds []time.Duration) []float64 {
	out := make([]float64, len(ds))
	for i, d := range ds {
		out[i] = float64(d) / float64(time.Microsecond)
	}
	return out
}

func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

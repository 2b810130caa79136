package load

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"
)

// rule states how far a figure may be from its start value.
type rule struct {
	figure string
	of     func(*Figures) int64
	above  int64 // how much higher it may be
	exact  bool  // it may not be lower
}

// rules returns the rules for a scenario with atOnce things at the same time, while
// sessions are open or after.
//
// Counts must be what they were. Memory need not be: a Go map keeps the memory that it
// once needed, and so do the slices behind queues, pools in the libraries and the tables
// of open requests. That memory is bounded by the largest number of things that existed
// at once, not by the number that ever existed: mapRoom for each, which is four maps (of
// queues, entries, watches, folders) whose keys are strings, each half empty. heapSlack
// is how much the heap of a Go process that uses the network varies from one moment to
// the next (timers, grown buffers of connections, gRPC's pools).
//
// While sessions are open there may be fewer streams than before, and fewer goroutines
// with each of them: on etcd, a stream that breaks while nothing is watched is not
// opened again.
//
// A fence on etcd exists as long as the session that needed it, because no client can
// know whether the request that it excludes may still arrive. A session uses its fences
// again, and has at most as many as Joins of it were under way at the same time.
//
// At the server, the number of descriptors varies by a few with the files of its log.
// The memory of the server has no rule, because the server collects its own garbage.
func rules(atOnce int, sessions bool) []rule {
	fences := rule{figure: "fences at the server", of: func(f *Figures) int64 { return f.Fences }, exact: true}
	if sessions {
		fences.above = math.MaxInt32
	}
	return []rule{
		fences,
		{figure: "keys at the server", of: func(f *Figures) int64 { return f.Keys }, exact: true},
		{figure: "watches at the server", of: func(f *Figures) int64 { return f.Watches }, exact: true},
		{figure: "sessions at the server", of: func(f *Figures) int64 { return f.Server.Sessions }, exact: true},
		{figure: "streams at the server", of: func(f *Figures) int64 { return f.Streams }, exact: !sessions},
		{figure: "goroutines", of: func(f *Figures) int64 { return f.Goroutines }, exact: !sessions},
		{figure: "file descriptors", of: func(f *Figures) int64 { return f.Files }, exact: true},
		{figure: "file descriptors of the server", of: func(f *Figures) int64 { return f.Server.Files }, above: serverFilesSlack},
		{figure: "heap", of: func(f *Figures) int64 { return f.Heap }, above: heapSlack + mapRoom*int64(atOnce)},
	}
}

const (
	serverFilesSlack = 8
	heapSlack        = 1 << 20
	mapRoom          = 256
)

// broken describes how a figure breaks the rule; it returns "" if the figure does not.
func (r rule) broken(was, is *Figures) string {
	before, now := r.of(was), r.of(is)
	if now > before+r.above || r.exact && now < before {
		return fmt.Sprintf("%s: %d, was %d", r.figure, now, before)
	}
	return ""
}

// brokenRules describes all figures that break their rules.
func brokenRules(rs []rule, was, is *Figures) []string {
	var all []string
	for _, r := range rs {
		b := r.broken(was, is)
		if b != "" {
			all = append(all, b)
		}
	}
	return all
}

// lastsFor is how many measurements in a row a rule must be broken in. A single one may
// count, for example, a goroutine that is renewing a lease.
const lastsFor = 5

// lasting takes the broken rules of the next measurement, and returns those that were
// broken in the last lastsFor measurements. streaks has the number of measurements in a
// row for each figure.
func lasting(streaks map[string]int, broken []string) (wrong []string) {
	before := maps.Clone(streaks)
	clear(streaks)
	for _, b := range broken {
		figure, _, _ := strings.Cut(b, ":")
		streaks[figure] = before[figure] + 1
		if streaks[figure] >= lastsFor {
			wrong = append(wrong, b)
		}
	}
	return wrong
}

// returned waits until all figures are what they were. It returns the last figures, and
// the rules that were still broken when the time was up.
func (r *run) returned(ctx context.Context, was Figures) (is Figures, wrong []string, err error) {
	rs, streaks := rules(r.atOnce, len(r.sessions) > 0), map[string]int{}
	began, times := time.Now(), 0
	err = until(ctx, "all figures have returned", func() (bool, error) {
		now, err := figures(ctx, r.s)
		if err != nil {
			return false, err
		}
		broken := brokenRules(rs, &was, &now)
		is, wrong = now, lasting(streaks, broken)
		times++
		return len(broken) == 0 || times >= lastsFor && time.Since(began) > r.within, nil
	})
	return is, wrong, err
}

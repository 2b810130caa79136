package load

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"
)

// A rule says how far a figure may be from where it began.
type rule struct {
	figure string
	of     func(*Figures) int64
	above  int64 // how much more there may be; less of what is exact is wrong too
	exact  bool
}

// rules are those for a scenario of so many, while sessions are open or after.
//
// What is counted must be what it was. Memory need not: a map of Go's keeps the
// room that it once needed, as do the slices behind queues, and so do pools in
// the libraries and the tables of open requests. That is bounded by the largest
// number of things that were there at once, not by how many there ever were:
// mapRoom for each, which is four maps (of lines, seats, watches, folders) whose
// keys are strings, each half empty. heapSlack is what a Go process that has
// talked over the network differs by from one moment to the next (timers, buffers
// of connections that grew, gRPC's pools).
//
// While sessions are open there may be fewer streams than before, and with each of
// them fewer goroutines: on etcd one that breaks while nothing is watched is not
// made anew.
//
// A fence on etcd stays for as long as the session that needed one, because nobody
// can tell when the request that it keeps out has gone astray for good. There is
// one for each Join that was not answered in time and had not been carried out.
//
// At the server, descriptors come and go by a few with the files of its log, and
// of its memory nothing is required: it has a collector of its own.
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

// broken says how a figure is not where it was, "" if it is.
func (r rule) broken(was, is *Figures) string {
	before, now := r.of(was), r.of(is)
	if now > before+r.above || r.exact && now < before {
		return fmt.Sprintf("%s: %d, was %d", r.figure, now, before)
	}
	return ""
}

// brokenRules says of all figures how they are not where they were.
func brokenRules(rs []rule, was, is *Figures) []string {
	var all []string
	for _, r := range rs {
		if b := r.broken(was, is); b != "" {
			all = append(all, b)
		}
	}
	return all
}

// staysFor is how many looks in a row show what is kept: a goroutine that renews a
// lease is there in one of them, now and then.
const staysFor = 5

// stays takes in what is wrong in the next look, and returns of it what was wrong
// in those before it too. streaks is how often each figure has been, in a row.
func stays(streaks map[string]int, broken []string) (wrong []string) {
	before := maps.Clone(streaks)
	clear(streaks)
	for _, b := range broken {
		figure, _, _ := strings.Cut(b, ":")
		if streaks[figure] = before[figure] + 1; streaks[figure] >= staysFor {
			wrong = append(wrong, b)
		}
	}
	return wrong
}

// returned waits until all figures are where they were. It returns the last ones,
// and what was still wrong when the time was up.
func (r *run) returned(ctx context.Context, was Figures) (is Figures, wrong []string, err error) {
	rs, streaks := rules(r.atOnce, len(r.sessions) > 0), map[string]int{}
	began, looks := time.Now(), 0
	err = until(ctx, "all is back", func() (bool, error) {
		now, err := figures(ctx, r.s)
		if err != nil {
			return false, err
		}
		broken := brokenRules(rs, &was, &now)
		is, wrong = now, stays(streaks, broken)
		looks++
		return len(broken) == 0 || looks >= staysFor && time.Since(began) > r.within, nil
	})
	return is, wrong, err
}

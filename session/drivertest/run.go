package drivertest

import (
	"slices"
	"testing"
)

// story is one case.
type story struct {
	name string
	tell func(w *world)
}

// topic is a group of stories.
type topic struct {
	name    string
	stories []story

	alone      bool // never beside others
	replicated bool // see Harness.Replicated
}

// topics is the suite, in the order in which it is best read.
func topics() []topic {
	return []topic{
		{name: "order", stories: order(), replicated: true},
		{name: "leave", stories: leave()},
		{name: "look", stories: look(), replicated: true},
		{name: "watch", stories: watch(), replicated: true},
		{name: "tell", stories: tell()},
		{name: "events", stories: events()},
		{name: "expiry", stories: expiry(), replicated: true},
		{name: "cancel", stories: cancel()},
		{name: "lost", stories: lost(), replicated: true},
		{name: "late", stories: late(), replicated: true},
		{name: "several", stories: several()},
		{name: "change", stories: change()},
		{name: "share", stories: share()},
		{name: "limit", stories: limit()},
		{name: "admit", stories: admit()},
		{name: "record", stories: record()},
		{name: "claim", stories: claim()},
		{name: "value", stories: value()},
		{name: "ledger", stories: ledger()},
		{name: "aspect", stories: aspect()},
		{name: "asks", stories: asks()},
		{name: "evict", stories: evict()},
		{name: "foreign", stories: foreign()},
		{name: "names", stories: names()},
		{name: "session", stories: sessions()},
		{name: "leaks", stories: leaks(), alone: true},
	}
}

// Run tells all stories, or those of Harness.Topics and Harness.Replicated, as
// subtests topic/story. Those that run beside no others come first; with
// Harness.Parallel, Run calls t.Parallel after them, and the others run beside each
// other and beside the other parallel tests of the package.
func Run(t *testing.T, h Harness) {
	var beside []topic
	for _, tp := range topics() {
		switch {
		case h.Topics != nil && !slices.Contains(h.Topics, tp.name), h.Replicated && !tp.replicated:
		case tp.alone:
			t.Run(tp.name, func(t *testing.T) { tp.run(t, h, false) })
		default:
			beside = append(beside, tp)
		}
	}
	if h.Parallel {
		t.Parallel()
	}
	for _, tp := range beside {
		t.Run(tp.name, func(t *testing.T) { tp.run(t, h, h.Parallel) })
	}
}

func (tp topic) run(t *testing.T, h Harness, parallel bool) {
	if parallel {
		t.Parallel()
	}
	for _, s := range tp.stories {
		t.Run(s.name, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			h.Tell(t, func(t *testing.T, h Harness) { s.tell(newWorld(t, h)) })
		})
	}
}

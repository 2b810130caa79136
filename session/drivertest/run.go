package drivertest

import (
	"fmt"
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

// over returns a case for each of all, which takes the place of %v in the name.
func over[F any](name string, all []F, tell func(w *world, f F)) []story {
	var stories []story
	for _, f := range all {
		stories = append(stories, story{fmt.Sprintf(name, f), func(w *world) { tell(w, f) }})
	}
	return stories
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

// Run tells all stories, or those of Harness.Topics and Harness.Replicated, as subtests topic/story.
func Run(t *testing.T, h Harness) {
	for _, tp := range topics() {
		if h.Topics != nil && !slices.Contains(h.Topics, tp.name) || h.Replicated && !tp.replicated {
			continue
		}
		t.Run(tp.name, func(t *testing.T) {
			for _, s := range tp.stories {
				t.Run(s.name, func(t *testing.T) {
					if h.Parallel && !tp.alone {
						t.Parallel()
					}
					h.Tell(t, func(t *testing.T, h Harness) { s.tell(newWorld(t, h)) })
				})
			}
		})
	}
}

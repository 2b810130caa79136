package drivertest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// testCase is one claim of the contract, and what shows whether it holds.
type testCase struct {
	name string
	run  func(w *fixture)
}

// topic is a group of cases.
type topic struct {
	name  string
	cases []testCase

	alone      bool // runs while no other case runs
	replicated bool // see Harness.Replicated
}

// over returns a case for each of all, which takes the place of %v in the name.
func over[F any](name string, all []F, run func(w *fixture, f F)) []testCase {
	var cases []testCase
	for _, f := range all {
		cases = append(cases, testCase{fmt.Sprintf(name, f), func(w *fixture) { run(w, f) }})
	}
	return cases
}

// topics is the suite for a harness, in the order in which it is best read.
func topics(h Harness) []topic {
	all := []topic{
		{name: "order", cases: order(), replicated: true},
		{name: "leave", cases: leave()},
		{name: "read", cases: reads(), replicated: true},
		{name: "watch", cases: watch(), replicated: true},
		{name: "events", cases: events()},
		{name: "first", cases: first()},
		{name: "target", cases: targets(), replicated: true},
		{name: "several", cases: several()},
		{name: "marks", cases: marks()},
		{name: "data", cases: data()},
		{name: "ops", cases: ops()},
		{name: "record", cases: records()},
		{name: "lost", cases: lost(), replicated: true},
		{name: "late", cases: late(), replicated: true},
		{name: "cancel", cases: cancel()},
		{name: "expiry", cases: expiry(), replicated: true},
		{name: "observed", cases: observed(), replicated: true},
		{name: "life", cases: life(h.Lives), replicated: true},
		{name: "observer", cases: observers()},
		{name: "foreign", cases: foreign()},
		{name: "yield", cases: yields()},
		{name: "names", cases: names()},
		{name: "leaks", cases: leaks(), alone: true},
	}
	return slices.DeleteFunc(all, func(tp topic) bool {
		return tp.name == "observed" && !h.Observed || tp.name == "foreign" && h.NoForeign || len(tp.cases) == 0
	})
}

// Run runs all cases that the harness has topics for, or those of Harness.Topics and
// Harness.Replicated, as subtests topic/case. Cases that run alone come first; with Harness.Parallel, Run calls
// t.Parallel after them, and the others run in parallel with each other and with the
// other parallel tests of the package.
func Run(t *testing.T, h Harness) {
	all := topics(h)
	for _, name := range h.Topics {
		require.True(t, slices.ContainsFunc(all, func(tp topic) bool { return tp.name == name }), "there is no topic %q", name)
	}
	var parallel []topic
	for _, tp := range all {
		switch {
		case h.Topics != nil && !slices.Contains(h.Topics, tp.name), h.Replicated && !tp.replicated:
		case tp.alone:
			t.Run(tp.name, func(t *testing.T) { tp.run(t, h, false) })
		default:
			parallel = append(parallel, tp)
		}
	}
	if h.Parallel {
		t.Parallel()
	}
	for _, tp := range parallel {
		t.Run(tp.name, func(t *testing.T) { tp.run(t, h, h.Parallel) })
	}
}

func (tp topic) run(t *testing.T, h Harness, parallel bool) {
	if parallel {
		t.Parallel()
	}
	for _, c := range tp.cases {
		t.Run(c.name, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			h.RunCase(t, func(t *testing.T, h Harness) { c.run(newFixture(t, h)) })
		})
	}
}

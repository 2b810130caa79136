// Package load puts weight on a service and on the process that uses it, and
// sees whether everything returns to where it began: thousands who wait in one
// line, thousands of locks that one session holds, thousands of sessions, and
// names that are never used again.
//
// What is looked at is named in Figures, and rules.go says how far each of them
// may be from where it was: the server's and the process's countable things not
// at all, memory by a bound whose reason is stated there. The server runs in a
// process of its own, so that what is measured here is the library's. It has to
// be alone in the process: whatever else goes on there is counted too.
package load

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Size is how much weight there is.
type Size struct {
	Waiters  int           `json:"waiters"`  // on one lock
	Crowd    int           `json:"crowd"`    // sessions that they come through the second time; the first time it is one
	Holds    int           `json:"holds"`    // on one session
	Sessions int           `json:"sessions"` // at once
	Names    time.Duration `json:"names"`    // for which changing names are locked
}

// Full is what a release is held to.
func Full() Size {
	return Size{Waiters: 10_000, Crowd: 100, Holds: 10_000, Sessions: 2_000, Names: time.Hour}
}

// Small is what a test has the time for.
func Small() Size {
	return Size{Waiters: 300, Crowd: 20, Holds: 300, Sessions: 50, Names: 5 * time.Second}
}

// Scenario is one of the things that are tried.
type Scenario struct {
	Name string
	Run  func(ctx context.Context, s Store) (*Result, error)
}

// Scenarios are all of them at a size. A scenario's error wraps ErrNotBack if a
// figure did not return; what was measured is in its Result then, as far as it
// got with every other error.
func (z Size) Scenarios() []Scenario {
	return []Scenario{
		{"waiters", func(ctx context.Context, s Store) (*Result, error) { return Waiters(ctx, s, z.Waiters, 1) }},
		{"crowd", func(ctx context.Context, s Store) (*Result, error) { return Waiters(ctx, s, z.Waiters, z.Crowd) }},
		{"holds", func(ctx context.Context, s Store) (*Result, error) { return Holds(ctx, s, z.Holds) }},
		{"sessions", func(ctx context.Context, s Store) (*Result, error) { return Sessions(ctx, s, z.Sessions) }},
		{"names", func(ctx context.Context, s Store) (*Result, error) { return Names(ctx, s, z.Names) }},
	}
}

// Everything is all scenarios one after another through the same sessions, and
// then a look whether everything has returned: what a test has the time for.
func (z Size) Everything(ctx context.Context, s Store) (*Result, error) {
	return scenario(ctx, s, "everything", max(z.Waiters, z.Holds), z.Sessions, func(ctx context.Context, r *run) error {
		if err := r.handDown(ctx, z.Waiters); err != nil {
			return err
		}
		if err := r.giveUp(ctx, z.Waiters); err != nil {
			return err
		}
		if err := r.holdTwice(ctx, z.Holds); err != nil {
			return err
		}
		if err := r.share(ctx, z.Sessions); err != nil {
			return err
		}
		if _, err := r.names(ctx, z.Names); err != nil {
			return err
		}
		return r.back(ctx, momentRest, r.idle)
	})
}

// On starts a store by its name, runs a scenario there, and stops it.
func On(ctx context.Context, store string, sc Scenario) (res *Result, err error) {
	start, ok := map[string]func(context.Context) (Store, error){"etcd": Etcd, "zookeeper": ZooKeeper}[store]
	if !ok {
		return nil, fmt.Errorf("load: there is no store %q", store)
	}
	s, err := start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return sc.Run(ctx, s)
}

// Result is what one scenario has shown.
type Result struct {
	Scenario string   `json:"scenario"`
	Store    string   `json:"store"`
	N        int      `json:"n"` // waiters, holds, sessions, or names
	Sessions int      `json:"sessions"`
	Phases   []Phase  `json:"phases"`
	Moments  []Moment `json:"moments"`

	// NotBack names the figures that did not return to where they began.
	NotBack []string `json:"not_back,omitempty"`

	// Pending is how many Unlocks did not wait for their acknowledgement: see
	// session.ErrReleasePending. They are finished in the background.
	Pending int64 `json:"pending,omitempty"`

	// Lost is how often a session, a hold or a place in a line was lost, and Logged
	// how often something was logged that an operator should read. Told are the
	// first of both.
	Lost   int      `json:"lost"`
	Logged int      `json:"logged"`
	Told   []string `json:"told,omitempty"`
}

// Phase is something that took time.
type Phase struct {
	Name string        `json:"name"`
	Took time.Duration `json:"nanoseconds"`
}

// Moment is how things stood.
type Moment struct {
	Name    string        `json:"name"`
	At      time.Duration `json:"nanoseconds"` // since the scenario began
	Figures Figures       `json:"figures"`
}

// The names of moments.
const (
	momentStart = "start" // no session is open
	momentIdle  = "idle"  // all are, and have been used
	momentPeak  = "peak"
	momentRest  = "rest" // all has been given back
	momentEnd   = "end"  // all sessions are closed
)

// String describes a result in a line.
func (r *Result) String() string {
	return fmt.Sprintf("%s on %s, n = %d, sessions = %d", r.Scenario, r.Store, r.N, r.Sessions)
}

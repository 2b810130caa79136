// Package load puts load on a service and on the process that uses it, and checks
// whether all figures return to their start values. The load is thousands of waiters
// for one lock, thousands of locks held by one session, thousands of sessions, or names
// that are never used again.
//
// Figures lists what is measured, and rules.go states how far each figure may be from
// its start value: most counts must be the same, and memory is bounded, for a reason
// stated there. The server runs in a process of its own, so that the figures of this
// process are the library's. Nothing else should run in this process: it would be
// counted too.
package load

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Size is the size of the load.
type Size struct {
	Waiters  int           `json:"waiters"`  // for one lock
	Crowd    int           `json:"crowd"`    // sessions of the waiters in the scenario "crowd"
	Holds    int           `json:"holds"`    // of one session
	Sessions int           `json:"sessions"` // at once
	Names    time.Duration `json:"names"`    // for which changing names are locked
}

// Full is the size that a release is tested with.
func Full() Size {
	return Size{Waiters: 10_000, Crowd: 100, Holds: 10_000, Sessions: 2_000, Names: time.Hour}
}

// Small is a size for tests that must be quick.
func Small() Size {
	return Size{Waiters: 300, Crowd: 20, Holds: 300, Sessions: 50, Names: 5 * time.Second}
}

// Scenario is one kind of load.
type Scenario struct {
	Name string
	Run  func(ctx context.Context, s Service) (*Result, error)
}

// Scenarios returns all scenarios at a size. A scenario's error wraps ErrNotBack if a
// figure did not return. Its Result then has all measurements; after any other error it
// has those that were made before.
func (z Size) Scenarios() []Scenario {
	return []Scenario{
		{"waiters", func(ctx context.Context, s Service) (*Result, error) { return Waiters(ctx, s, z.Waiters, 1) }},
		{"crowd", func(ctx context.Context, s Service) (*Result, error) { return Waiters(ctx, s, z.Waiters, z.Crowd) }},
		{"holds", func(ctx context.Context, s Service) (*Result, error) { return Holds(ctx, s, z.Holds) }},
		{"sessions", func(ctx context.Context, s Service) (*Result, error) { return Sessions(ctx, s, z.Sessions) }},
		{"names", func(ctx context.Context, s Service) (*Result, error) { return Names(ctx, s, z.Names) }},
	}
}

// Everything runs all scenarios one after another through the same sessions, and checks
// only at the end whether all figures have returned, so that a test can be quick.
func (z Size) Everything(ctx context.Context, s Service) (*Result, error) {
	return scenario(ctx, s, "everything", max(z.Waiters, z.Holds), z.Sessions, func(ctx context.Context, r *run) error {
		if err := r.passThrough(ctx, z.Waiters); err != nil {
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

// On starts a service by its name, runs a scenario there, and stops it.
func On(ctx context.Context, service string, sc Scenario) (res *Result, err error) {
	start, ok := map[string]func(context.Context) (Service, error){"etcd": Etcd, "zookeeper": ZooKeeper}[service]
	if !ok {
		return nil, fmt.Errorf("load: unknown service %q", service)
	}
	s, err := start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return sc.Run(ctx, s)
}

// Result is the result of one scenario.
type Result struct {
	Scenario string   `json:"scenario"`
	Service  string   `json:"store"`
	N        int      `json:"n"` // waiters, holds, sessions, or names
	Sessions int      `json:"sessions"`
	Phases   []Phase  `json:"phases"`
	Moments  []Moment `json:"moments"`

	// NotBack names the figures that did not return to their start values.
	NotBack []string `json:"not_back,omitempty"`

	// Pending is how many Unlocks did not wait for their acknowledgement: see
	// session.ErrReleasePending. They are finished in the background.
	Pending int64 `json:"pending,omitempty"`

	// Lost counts the losses of sessions, holds and places, and Logged the log messages
	// of level warning and above. Messages are the first of both.
	Lost     int      `json:"lost"`
	Logged   int      `json:"logged"`
	Messages []string `json:"told,omitempty"`
}

// Phase is a named part of a scenario, and its duration.
type Phase struct {
	Name string        `json:"name"`
	Took time.Duration `json:"nanoseconds"`
}

// Moment has the figures at one moment of a scenario.
type Moment struct {
	Name    string        `json:"name"`
	At      time.Duration `json:"nanoseconds"` // since the scenario began
	Figures Figures       `json:"figures"`
}

// The names of moments.
const (
	momentStart = "start" // no session is open
	momentIdle  = "idle"  // all sessions are open, and have been used
	momentPeak  = "peak"
	momentRest  = "rest" // all locks are released
	momentEnd   = "end"  // all sessions are closed
)

// String returns the parameters of a result.
func (r *Result) String() string {
	return fmt.Sprintf("%s on %s, n = %d, sessions = %d", r.Scenario, r.Service, r.N, r.Sessions)
}

package demo

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// state is all that is known about the present run. The workers' reports, the service's
// events and the ledger change it; the script, the picture and the final checks read it.
// Its methods may be called from any goroutine.
type state struct {
	terms  check.Terms
	start  stamp.Stamp
	ledger *ledger.Ledger
	onNote func(view.Note) // called with every note, in order

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced at every change
	caption   string
	workers   map[string]*workerState
	queue     []queued                // the entries, in the order of the service
	joined    map[int64]stamp.Stamp   // when a worker learned of its place
	grants    []check.Grant           // in the order of their reports
	byToken   map[int64]int           // the index of a grant in grants
	entries   map[int64]*check.Entry  // every entry that the service reported
	deletedAt map[int64]stamp.Stamp   // when the service reported the deletion
	read      map[int64]bool          // the ledger has answered the first request
	jobs      map[int64]time.Duration // how long the job under a token takes
	heads     []check.Head            // the service's first entry at each first request
	kill      check.Kill
	stop      check.Stop
	notes     []view.Note
	ended     bool    // the service has reported everything
	quiet     bool    // turns are too fast to note each
	failed    []error // errors that end the demonstration
	measured  int     // the number of hand-offs in the figures below
	p50, p99  time.Duration
}

// workerState is what is known about one worker.
type workerState struct {
	name   string
	pid    int
	state  view.State
	since  stamp.Stamp // when it was killed or stopped
	ready  bool
	exited bool
}

// queued is an entry of the queue.
type queued struct {
	entry
	since stamp.Stamp // when the service reported it
}

func newState(t check.Terms, l *ledger.Ledger, onNote func(view.Note)) *state {
	return &state{
		terms: t, start: stamp.Now(), ledger: l, onNote: onNote,
		changed:   make(chan struct{}),
		workers:   map[string]*workerState{},
		joined:    map[int64]stamp.Stamp{},
		byToken:   map[int64]int{},
		entries:   map[int64]*check.Entry{},
		deletedAt: map[int64]stamp.Stamp{},
		read:      map[int64]bool{},
		jobs:      map[int64]time.Duration{},
	}
}

// change calls f, which may change the state, and wakes all calls of until.
func (s *state) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// until blocks until a condition is met. It returns an error with what it waited for when
// ctx ends, and the first failure of the demonstration if there is one.
func (s *state) until(ctx context.Context, what string, cond func() bool) error {
	for {
		s.mu.Lock()
		met, changed, failed := cond(), s.changed, slices.Clone(s.failed)
		s.mu.Unlock()
		switch {
		case len(failed) > 0:
			return failed[0]
		case met:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// note adds a line to the log. The caller holds s.mu.
func (s *state) note(tone screen.Tone, format string, args ...any) {
	n := view.Note{At: stamp.Now().Sub(s.start), Text: fmt.Sprintf(format, args...), Tone: tone}
	s.notes = append(s.notes, n)
	s.onNote(n)
}

// say sets the caption, and adds it to the log.
func (s *state) say(tone screen.Tone, format string, args ...any) {
	s.change(func() {
		s.caption = fmt.Sprintf(format, args...)
		s.note(tone, "%s", s.caption)
	})
}

// fail adds an error that ends the demonstration.
func (s *state) fail(err error) {
	s.change(func() { s.failed = append(s.failed, err) })
}

// guard calls f, and ends the demonstration if f panics. If a panic ended the process, the
// terminal would be left without a cursor.
func (s *state) guard(f func()) {
	defer func() {
		p := recover()
		if p != nil {
			s.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	f()
}

// newest returns the newest grant of a worker, the zero Grant if it had none. The
// caller holds s.mu.
func (s *state) newest(name string) check.Grant {
	for _, g := range slices.Backward(s.grants) {
		if g.Worker == name {
			return g
		}
	}
	return check.Grant{}
}

// isOpen reports whether a hold has not ended.
func (s *state) isOpen(g check.Grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grants[s.byToken[g.Token]].How == check.Open
}

// history returns all that was observed. The caller adds what is left at the end.
func (s *state) history() *check.History {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &check.History{
		Terms:   s.terms,
		Grants:  slices.Clone(s.grants),
		Heads:   slices.Clone(s.heads),
		Refused: s.ledger.Refused(),
		Kill:    s.kill,
		Stop:    s.stop,
	}
	h.Kill.Deleted, h.Stop.Deleted = s.deletedAt[s.kill.Token], s.deletedAt[s.stop.Token]
	for i, g := range h.Grants {
		h.Grants[i].Joined = s.joined[g.Token]
	}
	for _, e := range s.entries {
		h.Entries = append(h.Entries, *e)
	}
	_, n := s.ledger.Last(0)
	h.Writes, _ = s.ledger.Last(n)
	return h
}

// insert adds an entry at its place in the queue. The caller holds s.mu.
func (s *state) insert(p entry) {
	i, _ := slices.BinarySearchFunc(s.queue, p.token, func(x queued, token int64) int { return cmp.Compare(x.token, token) })
	s.queue = slices.Insert(s.queue, i, queued{entry: p, since: stamp.Now()})
}

// failures returns the errors that end the demonstration.
func (s *state) failures() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.failed)
}

// age returns the time since the state was created.
func (s *state) age() time.Duration { return stamp.Now().Sub(s.start) }

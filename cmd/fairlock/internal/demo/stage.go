package demo

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// stage is all that is known of what goes on: fed by the workers' reports, the
// store's events and the ledger, read by the script, the picture and, in the
// end, the checks. Its methods may be called from any goroutine.
type stage struct {
	terms  check.Terms
	start  stamp.Stamp
	ledger *ledger.Ledger
	told   func(view.Note) // is told every note, in order

	mu       sync.Mutex
	changed  chan struct{} // closed and made anew at every change
	caption  string
	cast     map[string]*actor
	line     []spot                  // who stands in the line, as the store has it
	joined   map[int64]stamp.Stamp   // when a worker learned of its place
	grants   []check.Grant           // in the order of their reports
	byToken  map[int64]int           // where a grant is
	entries  map[int64]*check.Entry  // every entry that the store told of
	goneAt   map[int64]stamp.Stamp   // when the store told that it was gone
	read     map[int64]bool          // the ledger has answered its first touch
	jobs     map[int64]time.Duration // how long the job under a token takes
	heads    []check.Head            // what the store said at first touches
	kill     check.Kill              //
	stop     check.Stop              //
	notes    []view.Note             //
	ended    bool                    // the store has told of everything
	brief    bool                    // turns go too fast to be noted one by one
	broken   []error                 // what must not happen at all
	measured int                     // hand-offs that the figures below are of
	p50, p99 time.Duration           //
}

// actor is one worker as the stage knows it.
type actor struct {
	name  string
	pid   int
	state view.State
	since stamp.Stamp // when it was killed or stopped
	ready bool
	gone  bool
}

// spot is one entry of the line.
type spot struct {
	place
	since stamp.Stamp // when the store told of it
}

func newStage(t check.Terms, l *ledger.Ledger, told func(view.Note)) *stage {
	return &stage{
		terms: t, start: stamp.Now(), ledger: l, told: told,
		changed: make(chan struct{}),
		cast:    map[string]*actor{},
		joined:  map[int64]stamp.Stamp{},
		byToken: map[int64]int{},
		entries: map[int64]*check.Entry{},
		goneAt:  map[int64]stamp.Stamp{},
		read:    map[int64]bool{},
		jobs:    map[int64]time.Duration{},
	}
}

// change does f to the stage and tells all who wait for something.
func (s *stage) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// until waits for a condition over the stage. It says what it waited for when
// ctx ends first, and when something broke.
func (s *stage) until(ctx context.Context, what string, cond func() bool) error {
	for {
		s.mu.Lock()
		met, changed, broken := cond(), s.changed, slices.Clone(s.broken)
		s.mu.Unlock()
		switch {
		case len(broken) > 0:
			return broken[0]
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

// note writes a line of the log. The caller holds s.mu.
func (s *stage) note(tone screen.Tone, format string, args ...any) {
	n := view.Note{At: stamp.Now().Sub(s.start), Text: fmt.Sprintf(format, args...), Tone: tone}
	s.notes = append(s.notes, n)
	s.told(n)
}

// say makes a sentence the caption and a line of the log.
func (s *stage) say(tone screen.Tone, format string, args ...any) {
	s.change(func() {
		s.caption = fmt.Sprintf(format, args...)
		s.note(tone, "%s", s.caption)
	})
}

// fail notes what must not happen at all.
func (s *stage) fail(err error) {
	s.change(func() { s.broken = append(s.broken, err) })
}

// guard calls f, and makes a panic of it the end of the demonstration: one that
// ended the process would leave the terminal without a cursor.
func (s *stage) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			s.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	f()
}

// newest returns the newest grant of a worker, the zero Grant if it had none. The
// caller holds s.mu.
func (s *stage) newest(name string) check.Grant {
	for _, g := range slices.Backward(s.grants) {
		if g.Worker == name {
			return g
		}
	}
	return check.Grant{}
}

// isOpen reports whether a hold has not ended.
func (s *stage) isOpen(g check.Grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grants[s.byToken[g.Token]].How == check.Open
}

// history is all that was seen. The caller adds what is found at the end.
func (s *stage) history() *check.History {
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
	h.Kill.Deleted, h.Stop.Deleted = s.goneAt[s.kill.Token], s.goneAt[s.stop.Token]
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

// insert puts an entry where it stands in the line. The caller holds s.mu.
func (s *stage) insert(p place) {
	i, _ := slices.BinarySearchFunc(s.line, p.token, func(x spot, token int64) int { return cmp.Compare(x.token, token) })
	s.line = slices.Insert(s.line, i, spot{place: p, since: stamp.Now()})
}

// faulty returns what must not have happened at all.
func (s *stage) faulty() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.broken)
}

// age is how long the stage has been there.
func (s *stage) age() time.Duration { return stamp.Now().Sub(s.start) }

package membackend

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// changed sends copies of one change until one is answered. The service acts on
// the first and repeats its answer to the rest.
func changed[T any](ctx context.Context, s *memSession, what string, ref driver.Ref, act func() (T, error)) (T, error) {
	type outcome struct {
		done bool
		v    T
		err  error
	}
	var o outcome // guarded by the Store's mutex
	r := request{op: fault.Change, of: what + " " + nameOf(ref), session: s.id, patience: s.patience}
	got, _, err := roundTrip(ctx, s.c, r, func(driver.Instant) outcome {
		if !o.done {
			o.done = true
			o.v, o.err = act()
		}
		return o
	})
	if err == nil {
		err = got.err
	}
	if err != nil {
		return got.v, fmt.Errorf("memory: %s %q: %w", what, ref.Line, err)
	}
	return got.v, nil
}

// own returns the session's entry that ref names, or ErrGone. It needs the
// mutex.
func (s *memSession) own(ref driver.Ref) (*entry, error) {
	e := s.c.st.find(ref)
	if e == nil || e.lease != s.lease {
		return nil, driver.ErrGone
	}
	return e, nil
}

// call numbers a change, so that an old one that comes late undoes nothing.
func (s *memSession) call() int64 {
	s.c.st.mu.Lock()
	defer s.c.st.mu.Unlock()
	s.c.st.calls++
	return s.c.st.calls
}

// Share makes an entry a shared one, in its place.
func (s *memSession) Share(ctx context.Context, ref driver.Ref) (driver.Turned, error) {
	return changed(ctx, s, "share", ref, func() (driver.Turned, error) {
		e, err := s.own(ref)
		if err != nil {
			e = s.c.st.moved(ref) // by an earlier call
		}
		if e == nil || e.lease != s.lease {
			return driver.Turned{}, driver.ErrGone
		}
		s.c.st.share(e)
		return driver.Turned{Ref: e.Ref, Rev: s.c.st.dated(s.c.st.rev)}, nil
	})
}

// moved returns the entry that Share has put in the place of another, or nil.
func (st *Store) moved(ref driver.Ref) *entry {
	ln := st.lines[ref.Line]
	if ln == nil {
		return nil
	}
	if i, ok := ln.at(ref.Place); ok && ln.entries[i].was == ref {
		return ln.entries[i]
	}
	return nil
}

// share is the service's part of Share. Where it moves the entry, the old key
// goes and the new one comes at one revision, so that nobody sees the line
// without it.
func (st *Store) share(e *entry) {
	if e.Mode != driver.Exclusive {
		return
	}
	st.rev++
	if failpoint.On(failpoint.DowngradeAnew) {
		st.shareAnew(e)
		return
	}
	e.Mode, e.Movable = driver.Shared, false
	if !st.o.Moves {
		st.tellChanged(e)
		return
	}
	delete(e.lease.entries, e.Ref)
	e.was = e.Ref
	e.Key += "s"
	e.made, e.changed = st.rev, st.rev
	e.lease.entries[e.Ref] = e
	st.tellGone(e.was)
	st.tellLine(e.Line, driver.OfLine, 0)
}

// shareAnew is share with failpoint DowngradeAnew.
func (st *Store) shareAnew(e *entry) {
	old := e.Ref
	st.remove(e)
	e.Mode, e.Movable = driver.Shared, false
	e.lease.slots[e.Line] = append(e.lease.slots[e.Line], make([]bool, e.slot+1)...)
	e.lease.slots[e.Line][e.slot] = true
	st.put(e)
	e.was = old
}

// Admit notes at the entry that it holds.
func (s *memSession) Admit(ctx context.Context, ref driver.Ref) error {
	_, err := changed(ctx, s, "admit", ref, func() (struct{}, error) {
		e, err := s.own(ref)
		if err == nil && !e.Admitted {
			e.Admitted = true
			s.c.st.rev++
			s.c.st.tellChanged(e)
		}
		return struct{}{}, err
	})
	return err
}

// Record notes since when the entry holds. It is no event: nobody is told.
func (s *memSession) Record(ctx context.Context, ref driver.Ref, granted time.Time) error {
	_, err := changed(ctx, s, "record", ref, func() (struct{}, error) {
		e, err := s.own(ref)
		if err == nil && e.Granted.IsZero() {
			e.Granted = time.UnixMilli(granted.UnixMilli())
		}
		return struct{}{}, err
	})
	return err
}

// Claim gives the entry the lowest free number of its line.
func (s *memSession) Claim(ctx context.Context, ref driver.Ref) (driver.Number, error) {
	return changed(ctx, s, "claim", ref, func() (driver.Number, error) {
		e, err := s.own(ref)
		if err != nil {
			return driver.Number{}, err
		}
		if e.number == 0 {
			s.c.st.rev++
			e.number, e.numbered = s.c.st.lines[ref.Line].free(), s.c.st.rev
		}
		return driver.Number{N: e.number - 1, Token: e.numbered}, nil
	})
}

// free returns the lowest number, from 1 on, that no entry has.
func (ln *line) free() int {
	taken := make([]bool, len(ln.entries)+1)
	for _, e := range ln.entries {
		if e.number > 0 && e.number <= len(taken) {
			taken[e.number-1] = true
		}
	}
	return slices.Index(taken, false) + 1 // there are more numbers than entries
}

// Write gives the entry another value.
func (s *memSession) Write(ctx context.Context, ref driver.Ref, value []byte) error {
	if len(value) > maxValue {
		return fmt.Errorf("memory: write %q: value of %d bytes: %w", ref.Line, len(value), driver.ErrRefused)
	}
	value = append([]byte{}, value...)
	call := s.call()
	_, err := changed(ctx, s, "write", ref, func() (struct{}, error) {
		e, err := s.own(ref)
		switch {
		case err != nil:
		case !e.valued:
			err = fmt.Errorf("entry has no value: %w", driver.ErrRefused)
		case call > e.wrote:
			e.wrote = call
			s.c.st.change(e, value)
		}
		return struct{}{}, err
	})
	return err
}

// Enter writes the entry's name into the ledger.
func (s *memSession) Enter(ctx context.Context, ref driver.Ref) (driver.Past, error) {
	return changed(ctx, s, "enter", ref, func() (driver.Past, error) {
		e, err := s.own(ref)
		if err != nil {
			return driver.PastUnknown, err
		}
		return s.c.st.enter(e), nil
	})
}

// SetLimit gives a line another limit.
func (s *memSession) SetLimit(ctx context.Context, name string, limit int64) error {
	if limit <= 0 {
		return fmt.Errorf("memory: limit %d of %q: %w", limit, name, driver.ErrRefused)
	}
	call := s.call()
	_, err := changed(ctx, s, "limit", driver.Ref{Line: name}, func() (struct{}, error) {
		s.c.st.setLimit(name, limit, call)
		return struct{}{}, nil
	})
	return err
}

// Done reads the record of finished work.
func (s *memSession) Done(ctx context.Context, name string) ([]byte, error) {
	r := request{op: fault.List, of: "done " + name, session: s.id, patience: s.patience}
	record, _, err := roundTrip(ctx, s.c, r, func(driver.Instant) []byte { return s.c.st.beside[name].done })
	if err != nil {
		return nil, fmt.Errorf("memory: read what is done in %q: %w", name, err)
	}
	return record, nil
}

// MarkDone changes the record of finished work.
func (s *memSession) MarkDone(ctx context.Context, ref driver.Ref, update func([]byte) []byte) error {
	_, err := changed(ctx, s, "mark done", ref, func() (struct{}, error) {
		_, err := s.own(ref)
		b := s.c.st.beside[ref.Line]
		record := update(b.done)
		if len(record) > driver.MaxDone {
			return struct{}{}, fmt.Errorf("record of %d bytes: %w", len(record), driver.ErrRefused)
		}
		if err == nil && record != nil {
			b.done = record
			s.c.st.beside[ref.Line] = b
		}
		return struct{}{}, err
	})
	return err
}

package session

import (
	"context"
	"slices"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session/driver"
)

// Engine returns the inner side of this package, for the packages of this module only:
// no other can name the key.
func Engine(door.Key) door.Engine[Session, Hold, Entry, Options] {
	return door.Engine[Session, Hold, Entry, Options]{
		Open: open,
		Of:   func(s *Session) door.Session { return inner{s} },
		Grant: func(ctx context.Context, t door.Term, g door.Grant) (*Hold, error) {
			return t.(*term).hold(ctx, g)
		},
		Start: func(ctx context.Context, s *Session, r door.Start) (context.Context, door.Request) {
			return s.start(ctx, r)
		},
		Inner:   func(h *Hold) door.Hold[Session, Hold] { return innerHold{h} },
		Inside:  inside,
		Within:  within,
		Held:    held,
		Entry:   entryOf,
		Entries: entriesOf,
		Detail:  func(e Entry) driver.Entry { return e.of },
		Queue: func(ctx context.Context, s *Session, name string) ([]Entry, int64, error) {
			return s.queueOf(ctx, name)
		},
	}
}

// inner is the inner side of a Session.
type inner struct{ s *Session }

func (i inner) Term(ctx context.Context) (door.Term, error) {
	t, err := i.s.liveTerm(ctx)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (i inner) Clock() driver.Clock {
	if !i.s.opened() {
		return driver.SystemClock()
	}
	return i.s.clock
}

func (i inner) Profile() driver.Profile {
	if !i.s.opened() {
		return driver.Profile{}
	}
	return i.s.profile
}

func (i inner) Meta() driver.Meta {
	if !i.s.opened() {
		return driver.Meta{}
	}
	return i.s.meta
}

func (i inner) Hooked() bool { return i.s.opened() && i.s.hooked }

func (i inner) CheckName(name string) error { return i.s.checkName(name) }

func (i inner) List(ctx context.Context, name string, most int) ([]driver.Entry, error) {
	if err := i.s.checkName(name); err != nil {
		return nil, err
	}
	return i.s.backend.List(ctx, name, most)
}

func (i inner) Limit(ctx context.Context, name string) (int64, error) { return i.s.limit(ctx, name) }

func (i inner) Holds(kind, name string) bool {
	if !i.s.opened() {
		return false
	}
	i.s.mu.Lock()
	t := i.s.cur
	i.s.mu.Unlock()
	if t == nil || !t.Alive() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for g := range t.grants {
		if g.Kind == kind && g.Name == name {
			return true
		}
	}
	return false
}

// innerHold is the inner side of a Hold.
type innerHold struct{ h *Hold }

func (i innerHold) Of(s *Session, kind, name string) bool { return i.h.of(s, kind, name) }

func (i innerHold) Reenter(ctx context.Context, mode driver.Mode) (*Hold, error) {
	return i.h.reenter(ctx, mode)
}

func (i innerHold) Downgrade(ctx context.Context) error { return i.h.downgrade(ctx) }

func (i innerHold) Write(ctx context.Context, value []byte) error { return i.h.write(ctx, value) }

func (i innerHold) EntryGone(err error) { i.h.entryGone(err) }

func (i innerHold) Refs() []driver.Ref {
	i.h.g.mu.Lock()
	defer i.h.g.mu.Unlock()
	return slices.Clone(i.h.g.Refs)
}

func (i innerHold) Service() string { return i.h.g.t.s.profile.Service }

func (i innerHold) Previous() driver.Past { return i.h.g.Past }

package session

import (
	"context"
	"slices"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/next/driver"
	old "github.com/fairlock/fairlock/session/driver"
)

// Engine returns the inner side of this package, for the packages of this module only:
// no other can name the key.
func Engine(door.Key) door.Engine[Session, Hold, Entry, Options] {
	return door.Engine[Session, Hold, Entry, Options]{
		Open: func(ctx context.Context, b old.Backend, o *Options) (*Session, error) {
			return open(ctx, door.FromOld(b), o)
		},
		OpenNext: open,
		Of:       func(s *Session) door.Session { return inner{s} },
		Grant: func(ctx context.Context, t door.Term, g door.Grant) (*Hold, error) {
			return t.(*term).hold(ctx, g)
		},
		Start: func(ctx context.Context, s *Session, r door.Start) (context.Context, door.Request) {
			return s.start(ctx, r)
		},
		Inner:     func(h *Hold) door.Hold[Session, Hold] { return innerHold{h} },
		Inside:    inside,
		Within:    within,
		Held:      held,
		NextEntry: entryOf,
		Entry: func(place int, holds bool, e old.Entry) Entry {
			return entryOf(place, holds, door.EntryFromOld(e))
		},
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

func (i inner) Info() driver.Info {
	if !i.s.opened() {
		return driver.Info{}
	}
	return i.s.info
}

func (i inner) Next() bool {
	if !i.s.opened() {
		return false
	}
	return door.OldBackend(i.s.backend) == nil
}

func (i inner) Profile() old.Profile {
	if !i.s.opened() || i.Next() {
		return old.Profile{}
	}
	return door.OldBackend(i.s.backend).Profile()
}

func (i inner) Meta() old.Meta {
	if !i.s.opened() {
		return old.Meta{}
	}
	return i.s.meta
}

func (i inner) Hooked() bool { return i.s.opened() && i.s.hooked }

func (i inner) CheckName(name string) error { return i.s.checkName(name) }

func (i inner) List(ctx context.Context, name string, most int) ([]old.Entry, error) {
	if err := i.s.checkName(name); err != nil {
		return nil, err
	}
	return door.OldBackend(i.s.backend).List(ctx, name, most) //nolint:wrapcheck // the backend's own error
}

func (i inner) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	if err := i.s.checkName(req.Queue); err != nil {
		return driver.View{}, err
	}
	return i.s.read(ctx, req)
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

func (i innerHold) Refs() []old.Ref {
	i.h.g.mu.Lock()
	defer i.h.g.mu.Unlock()
	all := slices.Clone(i.h.g.Refs)
	for _, r := range i.h.g.NextRefs {
		all = append(all, door.RefToOld(r))
	}
	return all
}

func (i innerHold) NextRefs() []driver.Ref {
	i.h.g.mu.Lock()
	defer i.h.g.mu.Unlock()
	all := slices.Clone(i.h.g.NextRefs)
	for _, r := range i.h.g.Refs {
		all = append(all, door.RefFromOld(r))
	}
	return all
}

func (i innerHold) Service() string { return i.h.g.t.s.info.Service }

func (i innerHold) Previous() door.Past { return i.h.g.Past }

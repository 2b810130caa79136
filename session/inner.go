package session

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// Inside is this package as the packages of this module see it. Users cannot get one.
type Inside = door.Engine[Session, Hold, Entry, Options]

// Engine returns the inner side of this package, for the packages of this module only:
// no other can name the key.
func Engine(door.Key) Inside {
	return Inside{
		Open:     open,
		ForTools: func(o *Options) { o.forTools = true },
		Of:       innerOf,
		Grant:    newHold,
		Start: func(ctx context.Context, s *Session, r door.Start) (context.Context, door.Request) {
			return start(ctx, s, r)
		},
		Inner:   func(h *Hold) door.Hold[Session] { return innerHold{h} },
		Enter:   enter,
		Within:  within,
		Held:    held,
		Entry:   entryOf,
		Entries: entriesOf,
		Detail:  func(e Entry) driver.Entry { return e.of },
		Queue:   queueOf,
	}
}

// inner is a Session with the methods of door.Session, which are not for users.
type inner struct{ *Session }

// innerOf implements door.Engine's Of.
func innerOf(s *Session) door.Session {
	if !s.opened() {
		s = &Session{clock: driver.SystemClock(), logger: slog.New(slog.DiscardHandler)}
	}
	return inner{s}
}

// Term implements door.Session.
func (i inner) Term(ctx context.Context) (*term.Term, error) {
	if !i.opened() {
		return nil, errNotOpened
	}
	return i.terms.Live(ctx) //nolint:wrapcheck // it names what it does
}

// errNotOpened is the error of a Session that is nil or zero.
var errNotOpened = fmt.Errorf("%w: the Session is nil or was never opened", ErrClosed)

// Clock implements door.Session.
func (i inner) Clock() driver.Clock { return i.clock }

// Logger implements door.Session.
func (i inner) Logger() *slog.Logger { return i.logger }

// Info implements door.Session.
func (i inner) Info() driver.Info { return i.info }

// Meta implements door.Session.
func (i inner) Meta() door.Meta { return i.meta }

// Hooked implements door.Session.
func (i inner) Hooked() bool { return i.hooked }

// Traces implements door.Session.
func (i inner) Traces() bool { return i.opts.Hooks.Trace != nil }

// Trace implements door.Session.
func (i inner) Trace(ctx context.Context) string {
	if !i.Traces() {
		return ""
	}
	return i.opts.Hooks.Trace(ctx)
}

// MaxName is the longest name of a lock, in bytes.
const MaxName = 512

// CheckName implements door.Session.
func (i inner) CheckName(name string) error {
	switch {
	case !i.opened():
		return errNotOpened
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: it has %d bytes, more than the maximum of %d", ErrInvalidName, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w %q: it is not UTF-8", ErrInvalidName, name)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w %q: it contains a NUL byte", ErrInvalidName, name)
	}
	if err := i.backend.CheckName(name); err != nil {
		return fmt.Errorf("%w %q: %w", ErrInvalidName, name, err)
	}
	return nil
}

// Bounded implements door.Session.
func (i inner) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return i.terms.Bounded(ctx)
}

// Read implements door.Session.
func (i inner) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	if err := i.CheckName(req.Queue); err != nil {
		return driver.View{}, err
	}
	return i.read(ctx, req)
}

// Limit implements door.Session.
func (i inner) Limit(ctx context.Context, name string) (int64, error) {
	if err := i.CheckName(name); err != nil {
		return 0, fmt.Errorf("session: limit: %w", err)
	}
	v, err := i.read(ctx, driver.ReadRequest{Queue: name, Nearest: 1, Records: []string{rule.RecordLimit}})
	if err != nil {
		return 0, fmt.Errorf("session: limit of %q: %w", name, err)
	}
	limit, err := rule.LimitOf(name, v.Records[rule.RecordLimit])
	if err != nil {
		return 0, fmt.Errorf("session: limit: %w", err)
	}
	return limit, nil
}

// Holds implements door.Session.
func (i inner) Holds(kind, name string) bool {
	if !i.opened() {
		return false
	}
	t := i.terms.Current()
	return t != nil && t.Binds(func(b term.Bound) bool {
		g, ok := b.(*grant)
		return ok && g.Kind == kind && g.Name == name
	})
}

// innerHold is a Hold with the methods of door.Hold, which are not for users.
type innerHold struct{ *Hold }

// Of implements door.Hold.
func (i innerHold) Of(s *Session, kind, name string) bool {
	return i.Hold != nil && i.g != nil && i.g.s == s && i.g.Kind == kind && i.g.Name == name
}

// Downgrade implements door.Hold.
func (i innerHold) Downgrade(ctx context.Context) error { return i.downgrade(ctx) }

// Write implements door.Hold.
func (i innerHold) Write(ctx context.Context, value []byte) error {
	return i.g.update(ctx, i.Hold, func(ctx context.Context) error { return i.g.Write(ctx, value) })
}

// EntryGone implements door.Hold.
func (i innerHold) EntryGone() { i.g.entryGone() }

// Refs implements door.Hold.
func (i innerHold) Refs() []driver.Ref { return slices.Clone(i.g.Refs) }

// Service implements door.Hold.
func (i innerHold) Service() string { return i.g.s.info.Service }

// Previous implements door.Hold.
func (i innerHold) Previous() door.Past { return i.g.Past }

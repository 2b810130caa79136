package session

import (
	"context"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/session/driver"
)

// MaxName is the longest name of a lock, in bytes: 512.
const MaxName = engine.MaxName

// Inside is this package as the packages of this module see it. Users cannot get one: its zero
// value has no functions.
type Inside struct {
	// Open opens a Session on a backend, which the Session owns from then on, also when Open fails.
	// It returns when the first service session is there, or when ctx ends (after 5 s if ctx has no
	// deadline), with ErrInvalidOptions, ErrDenied, ErrRefused or ErrUnavailable. ctx bounds the
	// opening only.
	Open func(ctx context.Context, b driver.Backend, o *Options) (*Session, error)

	// ForTools makes Open succeed also where the service takes no new sessions, as a full etcd does.
	// The Session then reads and evicts, and has no term until the service gives it one.
	ForTools func(o *Options)

	// Acquire acquires what the requests ask for, see engine.Engine.Acquire. Errors are public ones.
	Acquire func(ctx context.Context, s *Session, rs ...engine.Request) (*Hold, error)

	// Of returns the engine of a Session. That of a nil or zero Session refuses every call.
	Of func(s *Session) *engine.Engine

	// Hold returns what is inside of a Hold; nil if h is nil or zero.
	Hold func(h *Hold) *engine.Handle

	// Entry returns an entry as users see it, Entries a whole queue of a limit (0 if it has none),
	// and Detail what an entry was made of, see owner.MetaOf.
	Entry   func(place int, holds bool, e driver.Entry) Entry
	Entries func(queue []driver.Entry, limit int64) []Entry
	Detail  func(e Entry) driver.Entry

	// Queue is Session.Queue, with the limit if the queue is that of a semaphore.
	Queue func(ctx context.Context, s *Session, name string) ([]Entry, int64, error)
}

// Engine returns the inner side of this package, for the packages of this module only:
// no other can name the key.
func Engine(door.Key) Inside {
	return Inside{
		Open:     open,
		ForTools: func(o *Options) { o.forTools = true },
		Acquire:  acquire,
		Of:       (*Session).inner,
		Hold:     (*Hold).inner,
		Entry:    entryOf,
		Entries:  entriesOf,
		Detail:   func(e Entry) driver.Entry { return e.of },
		Queue:    queueOf,
	}
}

// acquire is Inside.Acquire.
func acquire(ctx context.Context, s *Session, rs ...engine.Request) (h *Hold, err error) {
	e := s.inner()
	inside := e.Reenter(ctx, rs)
	if inside != nil { // no hook sees it
		return &Hold{inside}, nil
	}
	var hooks engine.Hooks
	if s.opened() && s.hooked {
		hooked, q := start(ctx, s, rs)
		defer func() { q.failed(err) }() // also after a panic in a method of ctx
		ctx, hooks = hooked, q
	}
	handle, err := e.Acquire(ctx, hooks, rs)
	if err != nil {
		return nil, public(err)
	}
	return &Hold{handle}, nil
}

// inner returns what is inside of a Hold; nil for nil.
func (h *Hold) inner() *engine.Handle {
	if h == nil {
		return nil
	}
	return h.h
}

package session

import (
	"context"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/session/driver"
)

// MaxName is the longest name of a lock, in bytes: 512.
const MaxName = engine.MaxName

// Inside is this package as the packages of this module see it. Users cannot get one.
type Inside struct{}

// Engine returns the inner side of this package, for the packages of this module only:
// no other can name the key.
func Engine(door.Key) Inside { return Inside{} }

// Open opens a Session on a backend, which the Session owns from then on, also when Open fails.
// It returns when the first service session is there, or when ctx ends (after 5 s if ctx has no
// deadline), with ErrInvalidOptions, ErrDenied, ErrRefused or ErrUnavailable. ctx bounds the
// opening only.
func (Inside) Open(ctx context.Context, b driver.Backend, o *Options) (*Session, error) {
	return open(ctx, b, o)
}

// ForTools makes Open succeed also where the service takes no new sessions, as a full etcd does.
// The Session then reads and evicts, and has no term until the service gives it one.
func (Inside) ForTools(o *Options) { o.forTools = true }

// Acquire acquires what the requests ask for, see engine.Engine.Acquire. Errors are public ones.
func (Inside) Acquire(ctx context.Context, s *Session, rs ...engine.Request) (h *Hold, err error) {
	e := s.inner()
	if inside := e.Reenter(ctx, rs); inside != nil { // no hook sees it
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

// Of returns the engine of a Session. That of a nil or zero Session refuses every call.
func (Inside) Of(s *Session) *engine.Engine { return s.inner() }

// Hold returns what is inside of a Hold; nil if h is nil or zero.
func (Inside) Hold(h *Hold) *engine.Handle {
	if h == nil {
		return nil
	}
	return h.h
}

// Entry returns an entry as users see it, and Entries a whole queue of a limit (0 if it has none).
func (Inside) Entry(place int, holds bool, e driver.Entry) Entry { return entryOf(place, holds, e) }

// Entries is Entry for a whole queue.
func (Inside) Entries(queue []driver.Entry, limit int64) []Entry { return entriesOf(queue, limit) }

// Detail returns what an entry was made of, see owner.MetaOf.
func (Inside) Detail(e Entry) driver.Entry { return e.of }

// Queue is Session.Queue, with the limit if the queue is that of a semaphore.
func (Inside) Queue(ctx context.Context, s *Session, name string) ([]Entry, int64, error) {
	return queueOf(ctx, s, name)
}

package session

import (
	"context"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session/driver"
)

// InnerHold is a Hold as the recipes and the engine of this module see it. What it
// does can end a hold, or let others in beside it, so users cannot get one.
type InnerHold struct{ h *Hold }

// Inner returns a hold as the recipes and the engine of this module see it. Only
// packages of this module can name the key.
func Inner(_ door.Key, h *Hold) InnerHold { return InnerHold{h} }

// Of reports whether the hold is one of that lock, taken through that Session by
// that recipe. It is false for nil and for a zero Hold.
func (i InnerHold) Of(s *Session, kind, name string) bool { return i.h.of(s, kind, name) }

// Reenter returns one more handle on the same hold, with the same token, for
// reentrant recipes. The lock is released when the last handle is unlocked. If the
// hold is over, the error is ErrUnlocked or a *LostError.
//
// A handle of mode Shared on an exclusive hold is that of a writer that reads too.
// When no other handles are left, the entry admits readers.
func (i InnerHold) Reenter(ctx context.Context, mode driver.Mode) (*Hold, error) {
	return i.h.reenter(ctx, mode)
}

// Downgrade makes an exclusive hold one that admits others of its kind: a writer
// becomes a reader. The recipe has checked that the hold is its own. Errors are
// those of rwlock.RWLock.Downgrade.
func (i InnerHold) Downgrade(ctx context.Context) error { return i.h.downgrade(ctx) }

// Write changes the value of the hold's entry. The recipe has checked that the hold
// is its own, and that its entries have values. It fails with ErrLost or ErrUnlocked
// if the hold is over, or ends meanwhile. After any other error it is not known
// whether the value was changed.
func (i InnerHold) Write(ctx context.Context, value []byte) error { return i.h.write(ctx, value) }

// EntryGone ends the hold, because somebody else has deleted its entry.
func (i InnerHold) EntryGone(err error) { i.h.entryGone(err) }

// Holds reports whether a live hold of that lock, acquired through that Session by that
// recipe, exists in this process.
func Holds(_ door.Key, s *Session, kind, name string) bool {
	if !s.opened() {
		return false
	}
	s.mu.Lock()
	t := s.cur
	s.mu.Unlock()
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

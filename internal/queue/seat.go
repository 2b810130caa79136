package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// seatState is where a seat is in its life; see the package's picture.
type seatState uint8

const (
	waiting seatState = iota
	held
	over
)

// seat is one entry of ours in a line. Its fields are guarded by the line's
// mutex, but for those that never change.
type seat struct {
	ln    *line
	entry driver.Entry // never changes
	born  int64        // when the entry was made; never changes
	rule  Rule         // never changes
	kind  string       // never changes
	done  chan struct{}

	state   seatState
	leaving bool          // our own delete is under way
	err     error         // why the seat got no hold, when done is closed
	hold    *session.Hold // once the caller has taken it
	lost    bool          // the entry went before the hold was taken

	ahead  Ahead
	rev    int64  // as of when ahead is known
	count  int    // how many are ahead, as last seen
	wants  bool   // is among those who want a look
	soon   bool   // will want one in a moment
	looked bool   // has been looked for
	all    bool   // the next look must show the whole line
	own    ownEye // the watch on the own entry
	subs   []*sub // the watches on others that it shares

	// departed are entries that are known to be gone, by events that may be
	// newer than the look under way. They never come back.
	departed []driver.Ref
}

// ownEye is the watch on a seat's own entry.
type ownEye struct {
	cancel func()
	armed  bool
	rev    int64 // from when on nothing is missed
}

// mine says that nothing that happened to the own entry was missed, as far as
// the driver's events go.
func (s *seat) mine() bool { return s.own.armed && s.own.rev <= s.rev }

// refused is why the seat got no hold, nil if it did.
func (s *seat) refused() error {
	s.ln.mu.Lock()
	defer s.ln.mu.Unlock()
	return s.err
}

// take makes the hold of a seat that was granted. If ctx has ended meanwhile,
// the lock is given back.
func (s *seat) take(ctx context.Context) (h *session.Hold, again bool, err error) {
	t := s.ln.e.t
	s.ln.mu.Lock()
	lost := s.lost
	s.ln.mu.Unlock()
	switch {
	case lost: // it went before anybody could use it
		return nil, true, s.rejoin(errPlaceLost)
	case ctx.Err() != nil:
		return nil, false, s.giveUp(ctx)
	}
	h, err = t.Hold(ctx, session.Grant{
		Name: s.ln.name, Kind: s.kind, Token: session.Token(s.entry.Token),
		Refs: []driver.Ref{s.entry.Ref}, Release: s.leave,
	})
	if err != nil {
		return nil, true, s.rejoin(err)
	}
	s.ln.mu.Lock()
	s.hold, lost = h, s.lost
	s.ln.mu.Unlock()
	if lost {
		h.EntryGone(errPlaceLost)
	}
	s.ln.e.guardLater(s)
	return h, false, nil
}

// leave deletes the entry and tells who waits for it in this process. It is
// idempotent; its error is that of the driver's Leave.
func (s *seat) leave(ctx context.Context) error {
	ln := s.ln
	ln.mu.Lock()
	if s.state == over && !s.leaving {
		ln.mu.Unlock()
		return driver.ErrGone
	}
	s.leaving = true
	next := ln.behind(s)
	// Who holds has been alone at the head of the line and stays so for as long
	// as the entry lives; if it does not, there is nothing to be deleted, and no
	// word is left. Who was only waiting is never granted once it leaves.
	alone := s.state == held && s.entry.Mode == driver.Exclusive
	ln.mu.Unlock()

	req := driver.LeaveRequest{Ref: s.entry.Ref, Held: alone}
	if next != nil {
		req.Probe = next.entry.Ref
	}
	left, err := ln.e.t.Driver().Leave(ctx, req)
	if err == nil || errors.Is(err, driver.ErrGone) {
		ln.do(func() {
			if next != nil && left.Probed && !left.Alive {
				ln.entryGone(next, unsure)
				next = nil
			}
			ln.remove(s, func(o *seat) bool { return o == next && left.Probed })
		})
	}
	return err
}

// rejoin tells that the place was lost and why.
func (s *seat) rejoin(why error) error {
	var lost *session.LostError
	if errors.As(why, &lost) && lost.Reason == session.ReasonClosed {
		return why // there will be no line to join
	}
	ses := s.ln.e.t.Session()
	o := ses.Options()
	o.Logger.Warn("fairlock: place in the line lost, joining again",
		"name", s.ln.name, "token", s.entry.Token, "err", why)
	if f := o.Hooks.Rejoined; f != nil {
		f(s.event(why))
	}
	return why
}

// describeTimeout is how long a caller whose ctx has ended is kept for the sake
// of a better error and of an entry that is gone when it returns.
const describeTimeout = 25 * time.Millisecond

// giveUp leaves the line for a caller whose ctx has ended, and says who was in
// the way. The delete goes on in the background if it takes longer.
func (s *seat) giveUp(ctx context.Context) error {
	t := s.ln.e.t
	e := &session.NotAcquiredError{Ahead: -1, Err: ended(ctx)}
	s.ln.mu.Lock()
	if s.state == waiting {
		e.Ahead = s.count
	}
	s.ln.mu.Unlock()

	gone := make(chan struct{})
	t.Clean(func(ctx context.Context) error {
		err := s.leave(ctx)
		if err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
		close(gone)
		return nil
	})
	short, cancel := driver.WithTimeout(t.Context(), t.Session().Clock(), describeTimeout)
	defer cancel()
	//nolint:contextcheck // ctx has ended, that is why we are here
	if first := s.ln.first.get(short, s.ln); first.Ref != s.entry.Ref {
		e.Holder, e.Now = first, t.Session().Clock().Wall()
	}
	select {
	case <-gone:
	case <-short.Done():
	}
	return e
}

// unleased is the error of a seat behind something that will stay for ever.
func (s *seat) unleased(e driver.Entry) error {
	return fmt.Errorf("%w: %q stands ahead and will stay until somebody deletes it", session.ErrForeignKey, e.Key)
}

// event describes the seat to a hook.
func (s *seat) event(err error) session.Event {
	return session.Event{
		Name: s.ln.name, Kind: s.kind, Session: s.ln.e.t.Driver().ID(),
		Token: session.Token(s.entry.Token), Ahead: s.count, Err: err,
	}
}

package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
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
	ln      *line
	entry   driver.Entry  // its Ref and Mode may change while held, see share
	born    int64         // when the entry was made; never changes
	granted time.Time     // when its caller got the hold, by our wall clock; set before guardLater
	rule    Rule          // never changes
	try     bool          // it is not to wait; never changes
	ledger  bool          // the line keeps account of it; never changes
	done    chan struct{} // closed when the waiting is over
	fall    func()        // tells who waits for another seat, or for time to pass; may be nil
	hooks   place         // never changes

	state   seatState
	leaving bool          // our own delete is under way
	err     error         // why the seat got no hold, when done is closed
	hold    *session.Hold // once the caller has taken it
	lost    bool          // the entry went by no doing of ours

	// changing is there when the entry was to be changed or deleted, and full
	// while that is being done.
	changing chan struct{}
	moving   bool // the entry may have another key than is known here

	stopRecord context.CancelFunc // ends the recording of the grant, while there is one

	book   book // what is known of the line's ledger
	ahead  Ahead
	rev    int64 // as of when ahead is known
	asked  int   // what the line's told was before that was asked for
	least  int64 // the next look must not be older
	ends   int64 // when the newest end was of those that are known, or turn; see vouch
	last   int64 // when the entry went; undated, or 0 where nothing has a date
	turned int64 // by when the entry admitted others; undated if that is not known
	count  int   // how many are ahead, as last seen

	blocker *driver.Entry // what the rule wanted to wait for last, never changed; nil: nothing yet

	waited bool   // somebody was ahead when it joined
	noted  bool   // the service has been told that it was admitted
	alien  bool   // a foreign entry was seen right before it
	wants  bool   // is among those who want a look
	soon   bool   // will want one in a moment
	looked bool   // has been looked for
	seen   bool   // was granted by a look
	need   int    // how many of the nearest a look must show; 0 means all
	all    bool   // the next look must show the whole line
	own    ownEye // the watch on the own entry
	subs   []*sub // the watches on others that it shares

	// departed are entries that are known to be gone, by events that may be
	// newer than the look under way. They never come back.
	departed []driver.Ref
}

// place is where the hooks see a seat.
type place struct {
	request     door.Request
	turn, queue int
}

// waitsFor notes what the request waits for, or did.
func (p place) waitsFor(e *driver.Entry) { p.request.WaitsFor(p.turn, e) }

// ownEye is the watch on a seat's own entry.
type ownEye struct {
	cancel func()
	armed  bool
	rev    int64 // from when on nothing is missed
}

// mine says that nothing that happened to the own entry was missed, as far as
// the driver's events go.
func (s *seat) mine() bool { return s.own.armed && s.own.rev <= s.rev }

// change keeps others from changing or deleting the entry, until changed. It ends
// the recording of a grant, which nothing waits for.
func (s *seat) change(ctx context.Context) error {
	s.ln.mu.Lock()
	if s.stopRecord != nil {
		s.stopRecord()
	}
	s.ln.mu.Unlock()
	return s.take(ctx)
}

// take is change without that.
func (s *seat) take(ctx context.Context) error {
	s.ln.mu.Lock()
	if s.changing == nil {
		s.changing = make(chan struct{}, 1)
	}
	s.ln.mu.Unlock()
	select {
	case s.changing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *seat) changed() { <-s.changing }

// depart begins the deletion of the entry. next is the seat of ours right behind
// it, if there is one.
func (s *seat) depart() (next *seat, req driver.LeaveRequest, err error) {
	ln := s.ln
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if s.state == over && !s.leaving {
		return nil, req, driver.ErrGone
	}
	s.leaving = true
	// Who holds has been alone at the head of the line and stays so for as long
	// as the entry lives; if it does not, there is nothing to be deleted, and no
	// word is left. Who was only waiting is never granted once it leaves.
	alone := s.state == held && s.entry.Mode == driver.Exclusive
	if failpoint.On(failpoint.WordOfWaiter) {
		alone = s.entry.Mode == driver.Exclusive
	}
	req = driver.LeaveRequest{Ref: s.entry.Ref, Held: alone}
	if next = ln.behind(s); next != nil {
		req.Probe = next.entry.Ref
	}
	return next, req, nil
}

// gone takes in that the entry was deleted, or had gone before.
func (s *seat) gone(next *seat, left driver.Left) {
	s.ln.do(func() {
		s.last = left.Rev
		if left.Gone || left.Rev == 0 && !left.Told {
			s.last = undated
		}
		if next != nil && left.Probed && !left.Alive {
			s.ln.foundGone(next)
			next = nil
		}
		s.ln.remove(s, func(o *seat) bool { return o == next && left.Probed })
	})
}

// leave deletes the entry and tells who waits for it in this process. clean has
// the line's ledger forget it. It is idempotent; its error is that of the
// driver's Leave.
func (s *seat) leave(ctx context.Context, clean bool) error {
	if err := s.change(ctx); err != nil {
		return err
	}
	defer s.changed()
	if err := s.settle(ctx); err != nil {
		return err
	}
	next, req, err := s.depart()
	if err != nil {
		return err
	}
	req.Clean = clean
	left, err := s.ln.e.t.Driver().Leave(ctx, req)
	if err == nil || errors.Is(err, driver.ErrGone) {
		left.Gone = err != nil
		s.gone(next, left)
	}
	return err
}

// settle learns under which key the entry stands, if a share has left that open.
func (s *seat) settle(ctx context.Context) error {
	s.ln.mu.Lock()
	moving, old := s.moving, s.entry.Ref
	s.ln.mu.Unlock()
	if !moving {
		return nil
	}
	_, err := s.sharing(ctx, old)
	return err
}

// sharing asks the service for a share, and takes in its answer.
func (s *seat) sharing(ctx context.Context, old driver.Ref) (driver.Ref, error) {
	turned, err := s.ln.e.t.Driver().Share(ctx, old)
	switch {
	case err == nil:
		s.ln.do(func() { s.ln.shared(s, turned) })
	case errors.Is(err, driver.ErrGone):
		s.ln.do(func() { s.ln.foundGone(s) })
	}
	return turned.Ref, err
}

// share makes the entry of a seat that holds admit others of its kind, and
// returns its name from then on. Its error is that of the driver's Share.
func (s *seat) share(ctx context.Context) (driver.Ref, error) {
	if err := s.change(ctx); err != nil {
		return driver.Ref{}, err
	}
	defer s.changed()
	ln := s.ln
	ln.mu.Lock()
	old, gone := s.entry.Ref, s.state == over
	done := s.entry.Mode == driver.Shared
	unknown := s.moving // an earlier one may have been done
	s.moving = !gone && !done && ln.e.moves
	ln.mu.Unlock()
	switch {
	case gone:
		return driver.Ref{}, driver.ErrGone
	case done:
		return old, nil
	}
	ref, err := s.sharing(ctx, old)
	if driver.Incurable(err) && !unknown {
		ln.do(func() { ln.stays(s) })
	}
	return ref, err
}

// stays takes in that the entry of a seat was not moved.
func (ln *line) stays(s *seat) {
	s.moving = false
	if s.state == held {
		ln.watchOwn(s, 0) // its end was no news meanwhile
	}
}

// shared takes in that the entry of a seat admits others, under that name.
func (ln *line) shared(s *seat, now driver.Turned) {
	s.moving = false
	if s.state == over {
		return
	}
	old := s.entry.Ref
	s.entry.Mode = driver.Shared
	if s.turned = now.Rev; now.Rev == 0 {
		s.turned = undated
	}
	if now.Ref == old {
		ln.stir(s, now.Rev)
		return
	}
	delete(ln.seats, old)
	s.entry.Ref = now.Ref
	ln.seats[now.Ref] = s
	if s.own.cancel != nil {
		s.own.cancel()
	}
	s.own = ownEye{}
	ln.watchOwn(s, 0)
	ln.gone(old, end{rev: undated, moved: true}, unsure)
}

// admit has the service note that the seat holds. That it cannot is known when
// the entry is gone, or the session over.
func (s *seat) admit() {
	if failpoint.On(failpoint.NoNote) {
		return
	}
	t := s.ln.e.t
	t.Clean(func(ctx context.Context) error {
		s.ln.mu.Lock()
		ref, idle := s.entry.Ref, s.state != held || s.leaving || s.noted
		s.ln.mu.Unlock()
		if idle {
			return nil
		}
		err := t.Driver().Admit(ctx, ref)
		switch {
		case err == nil, errors.Is(err, driver.ErrGone):
		case driver.Incurable(err):
			// Those behind wait longer than they must, until they look by themselves.
			t.s.Options().Logger.Warn("fairlock: cannot record that permits were acquired", "name", s.ln.name, "err", err)
		default:
			return err
		}
		s.ln.mu.Lock()
		defer s.ln.mu.Unlock()
		s.noted = true
		return nil
	})
}

// rejoin tells that the place was lost and why.
func (s *seat) rejoin(why error) error {
	var lost *session.LostError
	if errors.As(why, &lost) && lost.Reason == session.ReasonClosed {
		return why // there will be no line to join
	}
	s.ln.e.t.s.Options().Logger.Warn("fairlock: place in the queue lost, joining again",
		"name", s.ln.name, "token", s.entry.Token, "err", why)
	s.hooks.request.Rejoined(why)
	return why
}

// unleased is the error of a seat behind something that will stay for ever.
func (s *seat) unleased(e driver.Entry) error {
	return fmt.Errorf("%w: %q is ahead and stays until an operator deletes it", session.ErrForeignKey, e.Key)
}

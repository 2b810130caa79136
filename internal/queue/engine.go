package queue

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Core returns package session as the recipes and this package see it.
func Core() door.Engine[session.Session, session.Hold, session.Entry, session.Options] {
	return session.Engine(door.Key{})
}

// term is a service session, and the Session that it is under.
type term struct {
	door.Term
	s  *session.Session
	in door.Session
}

// termOf returns the live term of a Session.
func termOf(ctx context.Context, s *session.Session) (term, error) {
	in := Core().Of(s)
	t, err := in.Term(ctx)
	return term{t, s, in}, err
}

// shown returns the first entry of a queue for the error of a request that gave up; a
// zero one stays zero.
func shown(first driver.Entry) session.Entry {
	if first.Zero() {
		return session.Entry{}
	}
	return Core().Entry(1, true, first)
}

// first returns the first entry of a queue, a zero one if the queue is empty.
func (t term) first(ctx context.Context, name string) (driver.Entry, error) {
	queue, err := t.in.List(ctx, name, 1)
	if err != nil || len(queue) == 0 {
		return driver.Entry{}, err
	}
	return queue[0], nil
}

// engine is what a term has in its lines.
type engine struct {
	t       term
	ordered bool // as the driver's Profile says
	tells   bool // as the driver's Profile says
	moves   bool // as the driver's Profile says
	ends    bool // as the driver's Profile says

	mu    sync.Mutex
	lines map[string]*line // those with seats or users
	fresh []*seat          // held, and not guarded yet
	young []*seat          // held and guarded; the grant is to be recorded if the hold lasts
	quiet bool             // the log has a line about records that the service refuses
}

// engineOf returns the engine of a term.
func engineOf(t term) *engine {
	//nolint:forcetypeassert // only this function fills the slot
	return t.Engine(func(door.Term) any {
		p := t.in.Profile()
		return &engine{t: t, ordered: p.Ordered, tells: p.Tells, moves: p.Moves, ends: p.Ends, lines: map[string]*line{}}
	}).(*engine)
}

// open returns the line of that name, which stays until its last user has
// called close and its last seat is gone.
func (e *engine) open(name string) *line {
	e.mu.Lock()
	defer e.mu.Unlock()
	ln := e.lines[name]
	if ln == nil {
		ln = &line{e: e, name: name, seats: map[driver.Ref]*seat{}, subs: map[spot]*sub{}}
		e.lines[name] = ln
	}
	ln.users++
	return ln
}

// entrance is a line that is to be joined.
type entrance struct {
	*line
	asked int // what told is before that
}

func (ln *line) enter() entrance {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return entrance{ln, ln.told}
}

// close is the end of an open.
func (ln *line) close() {
	ln.e.mu.Lock()
	ln.users--
	ln.e.mu.Unlock()
	ln.tidy()
}

// tidy frees a line that nobody uses. The order of the locks is e.mu, ln.mu.
func (ln *line) tidy() {
	ln.e.mu.Lock()
	defer ln.e.mu.Unlock()
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.users == 0 && len(ln.seats) == 0 && ln.e.lines[ln.name] == ln {
		delete(ln.e.lines, ln.name)
		ln.stopTimer()
	}
}

// moment is how long a hold lasts before its entry is watched, and in a line with
// a limit noted as admitted. Most holds are shorter, and cost nothing.
const moment = 50 * time.Millisecond

// guardLater has the entry of a held seat watched if it is still held in a
// moment. One timer serves all that were granted meanwhile.
func (e *engine) guardLater(s *seat) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fresh = append(e.fresh, s)
	if len(e.fresh) == 1 {
		e.t.in.Clock().AfterFunc(moment, e.guard)
	}
}

// guard watches the entries of those that still hold.
func (e *engine) guard() {
	e.mu.Lock()
	fresh := e.fresh
	e.fresh = nil
	e.mu.Unlock()
	if e.t.Context().Err() != nil {
		return
	}
	for _, s := range fresh {
		s.ln.do(func() {
			if s.state == held && !s.leaving {
				s.ln.watchOwn(s, s.born)
				if s.rule.Limited {
					s.ln.acts = append(s.ln.acts, s.admit)
				}
				s.ln.acts = append(s.ln.acts, func() { e.recordLater(s) })
			}
		})
	}
}

// relook is how often a waiting seat looks without any event. It is a net under
// the watches: a connection may be silent without being closed.
func (e *engine) relook() time.Duration {
	d := max(e.t.s.Options().TTL, 10*time.Second)
	return d - d/4 + driver.Jitter(e.t.in.Clock(), d/2)
}

package queue

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Core returns package session as the recipes and this package see it.
func Core() door.Engine[session.Session, session.Hold, session.Entry, session.Options] {
	return session.Engine(door.Key{})
}

// term is a service session, and the Session that it is under.
type term struct {
	*door.Term
	s  *session.Session
	in door.Session
}

// termOf returns the live term of a Session.
func termOf(ctx context.Context, s *session.Session) (term, error) {
	in := Core().Of(s)
	t, err := in.Term(ctx)
	return term{t, s, in}, err
}

// engine is what a term has in its queues. It does what they ask of outside.
type engine struct {
	t     term
	s     driver.Session
	clock driver.Clock

	mu      sync.Mutex // guards all that follows, and the queues; nothing waits under it
	queues  map[string]*queue
	acts    []func() // are run when mu is free
	doubted doubts
	first   bool // Event.First was seen

	waiting later // protects those that wait for long
	held    later // protects and marks those that hold for a moment
	lasting later // stores when those were granted that hold for a second
	details []*entry
	storing bool // a goroutine stores details
}

// Most entries wait or hold for a shorter time than these, and cost nothing more.
const (
	long    = 250 * time.Millisecond
	moment  = 50 * time.Millisecond
	lasting = time.Second - moment // after moment
)

// linger is how long a queue that is not in use is kept: it is likely to be used again.
const linger = 2 * time.Second

// engineOf returns the engine of a term.
func engineOf(t term) *engine {
	//nolint:forcetypeassert // only this function fills the slot
	return t.Engine(func(*door.Term) any {
		e := &engine{t: t, s: t.Driver(), clock: t.in.Clock(), queues: map[string]*queue{}}
		e.waiting = later{e, long, e.waitsLong, nil}
		e.held = later{e, moment, e.holds, nil}
		e.lasting = later{e, lasting, e.lasts, nil}
		return e
	}).(*engine)
}

// do runs f under the mutex, and afterwards what f has left to do.
func (e *engine) do(f func()) {
	e.mu.Lock()
	f()
	acts := e.acts
	e.acts = nil
	e.mu.Unlock()
	for _, act := range acts {
		act()
	}
}

// after calls f under the mutex when d has passed, unless the term is over.
func (e *engine) after(d time.Duration, f func()) (stop func() bool) {
	return e.clock.AfterFunc(d, func() {
		if e.t.Context().Err() == nil {
			e.do(f)
		}
	})
}

// open returns the queue of that name, which stays until its users have called tidy and
// its last own entry is gone.
func (e *engine) open(name string) *queue {
	q := e.queues[name]
	if q == nil {
		q = &queue{name: name, out: e, pic: picture{described: e.t.in.Traces()}}
		e.queues[name] = q
	}
	q.users++
	return q
}

// entry returns our entry of that name, or nil.
func (e *engine) entry(ref driver.Ref) *entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q := e.queues[ref.Queue]; q != nil {
		return q.own.get(ref)
	}
	return nil
}

// tidy frees a queue some time after its last use.
func (e *engine) tidy(q *queue) {
	if q.idle || q.users > 0 || q.own.len() > 0 {
		return
	}
	q.idle = true
	q.forget() // no watch reports the ends of its entries from now on
	e.after(linger, func() {
		if q.idle = false; q.users > 0 || q.own.len() > 0 {
			return
		}
		if e.queues[q.name] == q { // a late Leave can find it freed, and another one in its place
			delete(e.queues, q.name)
		}
		if q.reread != nil {
			q.reread()
		}
	})
}

func (e *engine) doubts() *doubts { return &e.doubted }
func (e *engine) firsts() bool    { return e.first }

// watch implements outside.
func (e *engine) watch(w *watch) {
	w.cancel = e.s.Watch(w.target, func(ev driver.Event) {
		e.do(func() {
			e.first = e.first || ev.First
			w.q.event(w, ev)
		})
	})
}

// read implements outside. One goroutine reads a queue for all entries that want it. It
// ends when none does, or with the term.
func (e *engine) read(q *queue) {
	if q.reading {
		return
	}
	q.reading = true
	e.t.Go(func(ctx context.Context) {
		for backoff := minBackoff; ctx.Err() == nil; {
			var a *pendingRead
			if e.do(func() { a = q.next() }); a == nil {
				return // next has ended the reading in the same step, so a later want starts another
			}
			v, err := e.s.Read(ctx, a.ReadRequest)
			if err == nil {
				backoff = minBackoff
				e.do(func() { q.learned(a, v) })
				continue
			}
			e.do(func() { q.failed(a, err) })
			driver.Sleep(ctx, e.clock, backoff)
			backoff = min(2*backoff, maxBackoff)
		}
	})
}

// waits implements outside.
func (e *engine) waits(en *entry) {
	e.waiting.add(en)
	e.reread(en.q)
}

// reread makes the first waiter read now and then although no event comes: a connection may be
// silent without being closed. See recheck.
func (e *engine) reread(q *queue) {
	if failpoint.On(failpoint.LateWatch) || failpoint.On(failpoint.NoAdmittedMark) {
		return
	}
	if q.reread != nil {
		return
	}
	q.reread = e.after(rereadTime(e.t.s, e.clock), func() {
		q.reread = nil
		if q.recheck() {
			e.reread(q)
		}
	})
}

// rereadTime is how long a waiter waits for an event until it reads: about the TTL, or 10 s
// if that is more.
func rereadTime(s *session.Session, clock driver.Clock) time.Duration {
	d := max(s.Options().TTL, 10*time.Second)
	return d - d/4 + driver.Jitter(clock, d/2)
}

// waitsLong is called when an entry has waited for long: in the end every waiter is to
// learn that its entry is gone.
func (e *engine) waitsLong(en *entry) {
	if en.state == waiting && !en.leaving {
		en.q.protect(en)
	}
}

// lost implements outside.
func (e *engine) lost(en *entry) {
	if en.g.hold != nil { // else wait or take finds it lost
		e.endHold(en.g)
	}
	e.doubt()
}

// endHold ends a hold that is lost: first of all its context. Then the entry leaves all
// the same, because its records go with that; but where others are held with it, the
// caller is to stop first.
func (e *engine) endHold(g *group) {
	e.acts = append(e.acts, func() {
		Core().Inner(g.hold).EntryGone()
		if len(g.entries) == 1 {
			e.t.Clean(g.abandon)
		}
	})
}

// doubt implements outside. A renewal shows whether the session lives.
func (e *engine) doubt() {
	e.doubted.raise()
	e.acts = append(e.acts, e.t.Renew)
}

// later calls f for each entry a time after it was added, with one timer for all. What has
// begun to leave by then sets no timer of its own, and f does nothing for it.
type later struct {
	e   *engine
	d   time.Duration
	f   func(*entry)
	due []due
}

type due struct {
	*entry
	at driver.Instant
}

// add needs the mutex.
func (l *later) add(en *entry) {
	l.due = append(l.due, due{en, l.e.clock.Now().Add(l.d)})
	if len(l.due) == 1 {
		l.e.after(l.d, l.fire)
	}
}

func (l *later) fire() {
	now := l.e.clock.Now()
	for len(l.due) > 0 && (l.due[0].at <= now || l.due[0].leaving) {
		en := l.due[0].entry
		l.due[0] = due{}
		l.due = l.due[1:]
		l.f(en)
	}
	if len(l.due) > 0 {
		l.e.after(l.due[0].at.Sub(now), l.fire)
	} else {
		l.due = nil
	}
}

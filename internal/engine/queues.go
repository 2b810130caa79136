package engine

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// queues are the queues of one term that this process uses. They do what the queues ask of
// outside: package queue only decides.
type queues struct {
	e     *Engine
	t     *term.Term
	s     driver.Session // of t
	clock driver.Clock

	// mu guards the queues, with all that package queue keeps, and what follows. Nothing waits
	// under it.
	mu     sync.Mutex
	term   queue.Term
	byName map[string]*openQueue

	// acts are what is to be done when mu is free, in this order. Empty while it is.
	acts []func()
}

// openQueue is a queue while this process uses it, and for linger afterwards.
type openQueue struct {
	*queue.Queue
	in *queues

	// users is how many requests join the queue or wait in it. It is kept open while there are
	// some, or entries of ours.
	users int

	// idle: it is freed when linger has passed, unless it is used again.
	idle bool

	// stopReread stops the timer of the next read without an event; nil if there is none.
	stopReread func() bool
}

// linger is how long a queue that is not in use is kept: it is likely to be used again.
const linger = 2 * time.Second

// queuesOf returns the queues of a term. They are kept with the term, so a request that still runs on
// an old term finds the old ones.
func (e *Engine) queuesOf(t *term.Term) *queues {
	//nolint:forcetypeassert // only this function fills the slot
	return t.Engine(func(*term.Term) any {
		return &queues{e: e, t: t, s: t.Driver(), clock: e.info.Clock, byName: map[string]*openQueue{}}
	}).(*queues)
}

// do runs f under the mutex, and afterwards what f has left to do. Requests, hooks that end holds and
// renewals are left, because nothing may wait under the mutex, and the queues are called again by
// what they bring.
func (qs *queues) do(f func()) {
	qs.mu.Lock()
	f()
	acts := qs.acts
	qs.acts = nil
	qs.mu.Unlock()
	for _, act := range acts {
		act()
	}
}

// later has act done when the mutex is free. The caller holds it, by do.
func (qs *queues) later(act func()) { qs.acts = append(qs.acts, act) }

// after calls f under the mutex when d has passed, unless the term is over.
func (qs *queues) after(d time.Duration, f func()) (stop func() bool) {
	return qs.clock.AfterFunc(d, func() {
		if qs.t.Context().Err() == nil {
			qs.do(f)
		}
	})
}

// open returns the queue of that name, which stays until its users have called closed and its
// last own entry is gone. The caller holds the mutex.
func (qs *queues) open(name string) *openQueue {
	q := qs.byName[name]
	if q == nil {
		q = &openQueue{in: qs}
		q.Queue = queue.New(name, &qs.term, q)
		qs.byName[name] = q
	}
	q.users++
	return q
}

// entry returns our entry of that name, or nil.
func (qs *queues) entry(ref driver.Ref) *queue.Entry {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.byName[ref.Queue]
	if q != nil {
		return q.Entry(ref)
	}
	return nil
}

// closed ends one use of a queue. The caller holds the mutex. There is one call for each of open,
// by entries.closed, also after a panic in a method of the caller's context.
func (q *openQueue) closed() {
	q.users--
	q.tidy()
}

// tidy frees a queue some time after its last use. Its picture is forgotten at once, because it would
// grow old unseen; what is kept for linger is the queue itself, so that a program that locks in a loop
// makes none anew. The caller holds the mutex.
func (q *openQueue) tidy() {
	if q.idle || q.used() {
		return
	}
	q.idle = true
	q.Forget() // no watch reports the ends of its entries from now on
	qs := q.in
	qs.after(linger, func() {
		q.idle = false
		if q.used() {
			return
		}
		if qs.byName[q.Name] == q { // a late Leave can find it freed, and another one in its place
			delete(qs.byName, q.Name)
		}
		if q.stopReread != nil {
			q.stopReread()
		}
	})
}

func (q *openQueue) used() bool { return q.users > 0 || !q.Empty() }

// Watch implements queue.Outside. The driver reports one event at a time, in a goroutine of its own,
// and never from within the call.
func (q *openQueue) Watch(t driver.Target, f func(driver.Event)) (cancel func()) {
	return q.in.s.Watch(t, func(ev driver.Event) {
		q.in.do(func() { f(ev) })
	})
}

// Renew implements queue.Outside.
func (q *openQueue) Renew() { q.in.later(q.in.t.Renew) }

// The pauses between requests that no server has answered.
const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
)

// Read implements queue.Outside. One goroutine reads a queue for all entries that want it. It
// ends when none does, or with the term. It is called under the mutex, and the goroutine begins with
// Next, under the mutex too: so it also serves the entries that want a read in the same step.
//
// A read that fails changes nothing of the picture. The entries want it again, unless waiting cannot
// help, and the pause before the next one grows.
func (q *openQueue) Read() {
	qs := q.in
	qs.t.Go(func(ctx context.Context) {
		backoff := driver.Backoff{Least: minBackoff, Most: maxBackoff}
		for ctx.Err() == nil {
			var r *queue.Read
			qs.do(func() { r = q.Next() })
			if r == nil {
				return // Next has ended the reading in the same step, so a later want calls Read again
			}
			v, err := qs.s.Read(ctx, r.ReadRequest)
			if err == nil {
				backoff.Reset()
				qs.do(func() { q.Learned(r, v) })
				continue
			}
			qs.do(func() { q.Failed(r, err) })
			backoff.Sleep(ctx, qs.clock)
		}
	})
}

// reread makes the first waiter read now and then although no event comes: a connection may be
// silent without being closed. See queue.Queue.Recheck.
func (q *openQueue) reread() {
	if q.stopReread != nil {
		return
	}
	q.stopReread = q.in.after(q.in.e.rereadTime(), func() {
		q.stopReread = nil
		if q.Recheck() {
			q.reread()
		}
	})
}

// rereadTime is how long a waiter waits for an event until it reads: about the TTL, or 10 s
// if that is more.
func (e *Engine) rereadTime() time.Duration {
	d := max(e.cfg.TTL, 10*time.Second)
	return d - d/4 + driver.Jitter(e.info.Clock, d/2)
}

// readFirst reads the first entry of a queue, a zero one if the queue is empty; as it is
// now, if fresh.
func readFirst(ctx context.Context, s driver.Session, name string, fresh bool) (driver.Entry, error) {
	v, err := s.Read(ctx, driver.ReadRequest{Queue: name, Nearest: 1, Marks: true, Detail: true, Fresh: fresh})
	if err != nil || len(v.Entries) == 0 {
		return driver.Entry{}, err //nolint:wrapcheck // the backend's own error
	}
	return v.Entries[0], nil
}

// firstEntry returns the first entry of a queue for an error, a zero one if that cannot be learned
// soon.
func (qs *queues) firstEntry(ctx context.Context, name string) driver.Entry {
	ctx, cancel := qs.t.Within(ctx)
	defer cancel()
	ctx, stop := driver.WithTimeout(ctx, qs.clock, time.Second)
	defer stop()
	first, err := readFirst(ctx, qs.s, name, false)
	if err != nil {
		return driver.Entry{} // the error has one detail less
	}
	return first
}

// behind adds the first entry of the queue to an error.
func (qs *queues) behind(e *NotAcquired, first driver.Entry) *NotAcquired {
	e.First, e.Now = first, qs.clock.Wall()
	return e
}

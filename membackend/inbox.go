package membackend

import (
	"slices"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// delivery is something on its way to a session: an event, or the answer to a
// renewal. All of them come through one inbox, in the order of the service.
type delivery struct {
	due time.Time
	w   *watch
	ev  driver.Event
	f   func() // instead of w and ev
}

// receive is the way of an answer that stands in order with the events.
func (s *memSession) receive(answer func()) bool {
	s.push(delivery{f: answer})
	return true
}

// receiveLeave is the way of an answer to Leave. On one connection for everything
// it stands in order with the events, for as long as there are any.
func (s *memSession) receiveLeave(answer func()) bool {
	return s.c.st.o.NoRevs && !s.abandoned && s.receive(answer)
}

// push needs the mutex.
func (s *memSession) push(d delivery) {
	if s.abandoned {
		return
	}
	if w := s.c.wire; w != nil {
		w.Tell(s.id, d.what(), func() { s.put(d) })
		return
	}
	d.due = time.Now().Add(s.c.fromThere)
	if n := len(s.inbox); n > 0 && d.due.Before(s.inbox[n-1].due) {
		d.due = s.inbox[n-1].due // a delay that became shorter lets nothing overtake
	}
	s.inbox = append(s.inbox, d)
	s.rouse()
}

// put is what a schedule calls for push, when the time has come.
func (s *memSession) put(d delivery) {
	s.c.st.mu.Lock()
	defer s.c.st.mu.Unlock()
	if !s.abandoned {
		s.inbox = append(s.inbox, d)
		s.rouse()
	}
}

// rouse makes the session's goroutine look at the inbox.
func (s *memSession) rouse() { offer(s.wake, struct{}{}) }

// tellAll is the session's one goroutine. It calls what the session was opened
// and watched with, one at a time and without the mutex, and ends when the
// session is abandoned or closed.
func (s *memSession) tellAll() {
	defer close(s.finished)
	for {
		call, wait := s.next()
		if call != nil {
			call()
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-s.wake:
		case <-due:
		case <-s.quit:
			return
		}
	}
}

// next takes what is due from the inbox, or says how long to wait for it; 0 is
// until something comes.
func (s *memSession) next() (call func(), wait time.Duration) {
	st := s.c.st
	st.mu.Lock()
	defer st.mu.Unlock()
	for len(s.inbox) > 0 && !s.abandoned && !s.c.stalled {
		d := s.inbox[0]
		if wait := time.Until(d.due); wait > 0 {
			return nil, wait
		}
		s.inbox[0] = delivery{}
		s.inbox = s.inbox[1:]
		if d.w == nil {
			return d.f, 0
		}
		if call := d.w.note(d.ev); call != nil {
			return call, 0
		}
	}
	return nil, 0
}

// disconnect loses what is on its way to the session, and its watches at the
// service with it.
func (s *memSession) disconnect() {
	s.inbox = nil
	for _, w := range s.watches {
		w.disarm()
	}
}

// reconnect tells the watches that events may have been lost, and returns those
// that must be made anew.
func (s *memSession) reconnect() []*watch {
	slices.SortStableFunc(s.watches, byName)
	for _, w := range s.watches {
		if w.told {
			w.tell(driver.Event{Kind: driver.Broken})
		}
	}
	return append([]*watch(nil), s.watches...)
}

package membackend

import (
	"cmp"
	"strconv"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// NewScheduled is NewWith for this module's own simulation: time, messages and events
// go through s, which decides when they come, and whether. Faults set on a Client have
// no effect then, except that Cut and Heal break watches.
func NewScheduled(o *Options, s Schedule) *Store {
	st := NewWith(o)
	st.sched = s
	return st
}

// now is the service's time.
func (st *Store) now() time.Time {
	if st.sched != nil {
		return st.origin.Add(st.sched.Now())
	}
	return time.Now()
}

// expireLater has a lease end when its time is over.
func (st *Store) expireLater(l *lease) {
	d := l.expires.Sub(st.now())
	if st.sched == nil {
		l.timer = time.AfterFunc(d, func() { st.expire(l) })
		return
	}
	st.sched.After("lease "+l.id, d, func() { st.expire(l) })
}

// expire ends a lease whose time is over.
func (st *Store) expire(l *lease) {
	st.mu.Lock()
	defer st.mu.Unlock()
	// A renewal may have come meanwhile; it sets a timer only where it can be
	// stopped.
	switch {
	case st.leases[l.id] != l:
	case !st.now().Before(l.expires):
		st.end(l)
		if st.sched != nil {
			st.sched.Expired(l.id)
		}
	case st.sched != nil:
		st.expireLater(l)
	}
}

// schedule is send where there is a schedule.
func (c *Client) schedule(m *message) {
	c.wire.Send(Request{
		Ctx: m.who, Op: m.op, Of: m.of, Session: m.session, Broke: m.broke,
		Launch: func() bool {
			c.st.mu.Lock()
			defer c.st.mu.Unlock()
			m.sent = m.sent || !m.canceled
			return !m.canceled
		},
		Arrive: func(reply bool) (answer func()) {
			c.st.mu.Lock()
			defer c.st.mu.Unlock()
			c.st.remember()
			answer = m.apply()
			switch {
			case !reply:
				return nil
			case m.carry != nil && m.carry(answer):
				return nil
			}
			return answer
		},
	})
}

// alarm rings when the time is over that it was set to.
type alarm struct {
	c     *Client
	rings chan struct{} // of the last set
	end   func() bool
}

func (c *Client) alarm() *alarm { return &alarm{c: c} }

// set makes the alarm ring after d, and not at the time set before.
func (a *alarm) set(d time.Duration) {
	a.stop()
	rings := make(chan struct{})
	ring := func() { close(rings) }
	a.rings = rings
	if w := a.c.wire; w != nil {
		a.end = w.AfterFunc(d, ring)
		return
	}
	a.end = time.AfterFunc(d, ring).Stop
}

func (a *alarm) stop() {
	if a.end != nil {
		a.end()
	}
}

// nameOf names an entry as traces do.
func nameOf(ref driver.Ref) string {
	if ref.Key == "" && ref.Place == 0 {
		return ref.Line
	}
	return ref.Key + "@" + strconv.FormatInt(ref.Place, 10)
}

// name is what a watch is of.
func (w *watch) name() string {
	name := nameOf(w.req.Ref)
	switch {
	case w.req.Own:
		name += " own"
	case w.req.Of != driver.OfEntry:
		name += " of " + strconv.Itoa(int(w.req.Of))
	}
	return name
}

// byName orders watches by what they are of.
func byName(a, b *watch) int { return cmp.Compare(a.name(), b.name()) }

// what names a delivery.
func (d delivery) what() string {
	if d.w == nil {
		return "answer"
	}
	kind := ""
	switch d.ev.Kind {
	case driver.Armed:
		kind = "armed"
	case driver.Changed:
		kind = "changed"
	case driver.Gone:
		kind = "gone"
	case driver.Broken:
		kind = "broken"
	}
	return kind + " " + d.w.name()
}

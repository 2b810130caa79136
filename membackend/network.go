package membackend

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// network is a Client as a memory.Wire: package time's clock, and a network with the
// faults that are set on the Client.
type network struct{ *Client }

// set calls f with the mutex of the network.
func (c *Client) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// Send implements memory.Wire. Without a delay, the request and its answer are delivered in
// the caller's goroutine.
func (n network) Send(r memory.Request) {
	var hook func(fault.Op)
	n.set(func() { hook = n.onSend })
	if hook != nil {
		hook(r.Op) // without the mutex: it sets faults
	}
	n.launch(r)
}

// launch sends a request from the process. A fault that waits for its kind decides what becomes
// of it:
//
//	the fault      the service acts   the process gets
//	none           yes                the answer
//	LostRequest    no                 nothing: the timeout sends another copy
//	BrokenRequest  no                 Broke: another copy is sent after a short pause
//	LostReply      yes                nothing
//	BrokenReply    yes                Broke
//	LateRequest    at Deliver         Broke
//
// A cut comes before all of these: of the requests, nothing leaves; of the replies, the process
// gets neither an answer nor Broke, as in a partition.
//
// A stalled process keeps the request, which has not left it then. So whether it is still wanted
// (Launch) is asked at Resume, and a request whose attempt has ended meanwhile is never sent.
func (n network) launch(r memory.Request) {
	if n.hold(func() { n.launch(r) }) || !r.Launch() {
		return
	}
	hit := n.plan.Take(r.Op)
	n.mu.Lock()
	n.sent[r.Op]++
	lost := n.cut&fault.Requests != 0
	if hit == fault.LateRequest && !lost {
		n.late = append(n.late, func() { r.Arrive(false) })
	}
	delay := n.toService
	n.mu.Unlock()
	switch {
	case lost, hit == fault.LostRequest:
	case hit == fault.BrokenRequest, hit == fault.LateRequest:
		n.reply(r.Broke)
	default:
		after(delay, func() { n.arrive(r, hit) })
	}
}

// arrive brings a request to the service, unless the network was cut while it was under way. The
// service acts also if the answer will be lost: then the outcome is unknown to the process.
func (n network) arrive(r memory.Request, hit fault.Kind) {
	cut, _ := n.state()
	if cut&fault.Requests != 0 {
		return
	}
	answer := r.Arrive(hit == "" && cut&fault.Replies == 0)
	if hit == fault.BrokenReply {
		answer = r.Broke
	}
	n.reply(answer)
}

// reply brings an answer to the process. A cut loses it when it is sent and when it arrives. A
// process that is stalled at its arrival gets it at Resume.
func (n network) reply(answer func()) {
	cut, delay := n.state()
	if answer == nil || cut&fault.Replies != 0 {
		return
	}
	after(delay, func() {
		cut, _ := n.state()
		if cut&fault.Replies == 0 && !n.hold(answer) {
			answer()
		}
	})
}

// state returns which directions are cut, and how long answers take.
func (n network) state() (cut fault.Direction, delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut, n.fromThere
}

// hold keeps f until Resume if the process is stalled, and reports whether it is. Test and keeping
// are one step, so that nothing is kept after Resume has taken out what it will call.
func (n network) hold(f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stalled {
		n.held = append(n.held, f)
	}
	return n.stalled
}

// after calls f when d has passed; at once if d is 0.
func after(d time.Duration, f func()) {
	if d <= 0 {
		f()
		return
	}
	time.AfterFunc(d, f)
}

// event is an event on its way to a session.
type event struct {
	lane string    // see memory.Wire
	due  time.Time // not before that of an earlier event of the lane
	f    func()    // puts the event into the inbox of its session
}

// Deliver implements memory.Wire. A delay that became shorter lets no event overtake another
// of its lane.
//
// Its caller holds the Store's mutex. Where nothing delays the event, it is in the inbox of its
// session when Deliver returns: before the answer to the request that has made the change.
func (n network) Deliver(lane, _ string, f func()) {
	n.mu.Lock()
	if n.cut&fault.Replies != 0 {
		n.mu.Unlock()
		return
	}
	due := time.Now().Add(n.fromThere)
	if n.st.o.Disorder != 0 {
		due = due.Add(time.Duration(n.random.IntN(4)) * time.Millisecond)
	}
	for _, e := range n.events {
		if e.lane == lane && e.due.After(due) {
			due = e.due
		}
	}
	n.events = append(n.events, event{lane, due, f})
	slices.SortStableFunc(n.events, func(a, b event) int { return a.due.Compare(b.due) })
	n.mu.Unlock()
	after(time.Until(due), n.deliverDue)
}

// deliverDue delivers the events that are due. There is one call for each event, at once or by a
// timer, and a call may find that an earlier one has delivered its event already. It delivers under
// the mutex: otherwise two calls at the same moment could exchange two events of a lane.
func (n network) deliverDue() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for !n.stalled && len(n.events) > 0 && !n.events[0].due.After(time.Now()) {
		n.events[0].f() // takes no mutex but that of an inbox
		n.events[0].f = nil
		n.events = n.events[1:]
	}
}

// Now implements driver.Clock. It begins an hour above zero, so that no Instant is zero,
// which means "never". It goes on while the process is stalled, as CLOCK_BOOTTIME does: a
// process that goes on after its deadline finds that by the clock before any timer fires.
func (n network) Now() driver.Instant { return driver.Instant(n.st.sched.Now() + time.Hour) }

// Wall implements driver.Clock.
func (n network) Wall() time.Time { return time.Now() }

// AfterFunc implements driver.Clock. While the process is stalled, f is held back, and can
// still be stopped.
func (n network) AfterFunc(d time.Duration, f func()) func() bool {
	// done: called or stopped. Whichever of the two sets it has won, so f is never called after
	// stop has returned true, and stop never returns true for a call that was made.
	var done atomic.Bool
	run := func() {
		if !done.Swap(true) {
			f()
		}
	}
	t := time.AfterFunc(d, func() {
		if !n.hold(func() { go run() }) {
			run()
		}
	})
	return func() bool {
		t.Stop()
		return !done.Swap(true)
	}
}

// packageTime is the memory.Schedule of a Store that is not simulated. Its value is the time
// at which the Store was made.
type packageTime time.Time

func (t packageTime) Now() time.Duration                      { return time.Since(time.Time(t)) }
func (packageTime) After(_ string, d time.Duration, f func()) { time.AfterFunc(d, f) }
func (packageTime) Changed(string)                            {}
func (packageTime) Expired(string)                            {}
func (packageTime) Wire() memory.Wire                         { return nil }

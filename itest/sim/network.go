package sim

import (
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/fairlock/fairlock/fault"
)

// settle waits until all goroutines are blocked, and schedules what they have posted.
func (w *simulation) settle() {
	for _, e := range merge(w.rest()) {
		w.schedule(e)
	}
	w.observe()
}

// step carries out the next event, and reports whether there was one.
func (w *simulation) step() bool {
	w.settle()
	s := &w.scheduler
	for {
		e := s.pop()
		if e == nil {
			return false
		}
		if e.due > s.Now() {
			s.now.Store(int64(e.due))
		}
		if e.c != nil && e.c.paused && e.what != atService && e.what != atFault {
			e.c.kept = append(e.c.kept, e)
			continue
		}
		if (e.idle == nil || !e.idle()) && w.deliver(e) {
			s.steps++
			return true
		}
	}
}

// schedule draws when a new event happens.
func (w *simulation) schedule(e *event) {
	now := w.Now()
	switch e.what {
	case atLaunch:
		w.launch(e.req)
		return
	case atDeliver:
		if e.c.cut&fault.Replies != 0 || e.epoch != e.c.epoch {
			return
		}
		travel := w.latency(e.c, "event "+e.req.name)
		due := max(now+travel, e.c.delivered[e.name]+1)
		e.c.delivered[e.name] = due
		e.due = due
	case atTimer:
		e.due = now + e.num + w.in(0, 300*time.Microsecond)
		if w.chance(50) {
			e.due += w.in(0, late)
		}
	case atActor, atService, atReply, atFault:
		e.due = now + e.num
	}
	w.push(e)
}

// late is how much later than due a timer fires, at most.
const late = 20 * time.Millisecond

// deliver carries out an event, and reports whether it counts as a step.
func (w *simulation) deliver(e *event) bool {
	switch e.what {
	case atTimer:
		if !w.fire(e) {
			return false
		}
		w.log(e.c, "timer", e.num.String())
		w.woke = true
	case atDeliver:
		if e.epoch != e.c.epoch || e.c.cut&fault.Replies != 0 {
			return false
		}
		w.log(e.c, "event", e.req.name)
		kind, target, _ := strings.Cut(e.req.name, " ")
		w.armed[e.name+target] = kind != "lost"
		w.woke = true
		e.run()
	case atReply:
		if e.c.cut&fault.Replies != 0 {
			w.log(e.c, "lost", e.name)
			return true
		}
		w.log(e.c, "answer", e.name)
		e.c.answered[e.name] = w.Now()
		w.woke = true
		e.run()
	case atActor:
		w.log(e.c, "goes on", e.name)
		w.woke = true
		e.run()
	case atService, atFault:
		e.run()
		w.observe()
	case atLaunch:
	}
	return true
}

// latency draws how long a message travels on a client's network.
func (w *simulation) latency(c *client, what string) time.Duration {
	if w.healed || w.severity == 0 {
		return w.in(100*time.Microsecond, 3*time.Millisecond)
	}
	switch n := w.random.IntN(1000); {
	case n < 4*w.severity:
		w.noteFault(c, "slow", what)
		d := w.in(50*time.Millisecond, 2*ttl/3)
		c.faultAt = max(c.faultAt, w.Now()+d)
		return d
	case n < 30*w.severity:
		return w.in(3*time.Millisecond, 40*time.Millisecond)
	}
	return w.in(100*time.Microsecond, 3*time.Millisecond)
}

// launch sends a request from its process, unless a fault prevents it.
func (w *simulation) launch(f *flight) {
	c := f.c
	if c.paused {
		c.kept = append(c.kept, &event{what: atLaunch, c: c, name: f.name, req: f})
		return
	}
	if !f.Launch() {
		return
	}
	if !w.healed && w.severity > 0 && w.chance(300/w.severity) {
		if w.atCall(f) {
			return // it is held back
		}
	}
	if f.Op == fault.Renew && !w.healed && w.severity > 0 && w.chance(400/w.severity) {
		w.renewLate(c)
	}
	if f.Op == fault.Open {
		c.opens = append(c.opens, w.Now())
	}
	if c.cut&fault.Requests != 0 {
		w.log(c, "lost", f.name)
		return
	}
	w.log(c, "sends", f.name)
	hit, doubled := w.draw(f)
	travel := w.latency(c, f.name)
	if hit != "" {
		w.noteFault(c, string(hit), f.name)
		if f.Op == fault.Leave && w.chance(3) {
			w.endBetween(f)
		}
	}
	switch hit {
	case fault.LostRequest:
		return
	case fault.BrokenRequest:
		w.reply(f, w.latency(c, f.name), f.Broke)
		return
	case fault.LateRequest:
		w.reply(f, w.latency(c, f.name), f.Broke)
		travel, hit = w.in(time.Millisecond, ttl), fault.LostReply
	case fault.LostReply, fault.BrokenReply:
	}
	if doubled {
		w.noteFault(c, "doubled", f.name)
		w.travel(f, w.in(time.Millisecond, ttl), fault.LostReply)
	}
	w.travel(f, travel, hit)
}

// draw draws which fault hits a request, "" for none, or whether there is a second copy
// of it.
func (w *simulation) draw(f *flight) (hit fault.Kind, doubled bool) {
	if w.healed || w.severity == 0 {
		return "", false
	}
	switch n := w.random.IntN(1000) / w.severity; {
	case n < 4:
		return fault.LostRequest, false
	case n < 7 && f.Broke != nil:
		return fault.BrokenRequest, false
	case n < 10:
		return fault.LostReply, false
	case n < 13:
		return fault.BrokenReply, false
	case n < 17 && f.Broke != nil:
		return fault.LateRequest, false
	case n < 20:
		return "", true
	}
	return "", false
}

// travel brings a request to the service, and its answer back.
func (w *simulation) travel(f *flight, d time.Duration, hit fault.Kind) {
	c := f.c
	w.push(&event{what: atService, due: w.Now() + d, c: c, name: f.name, run: func() {
		if c.cut&fault.Requests != 0 {
			w.log(c, "lost", f.name)
			return
		}
		if f.Session != "" {
			w.owner[f.Session] = c
		}
		w.log(c, "arrives", f.name)
		w.op = f.Op
		answer := f.Arrive(hit == "" && c.cut&fault.Replies == 0)
		if hit == fault.BrokenReply {
			answer = f.Broke
		}
		if answer == nil {
			return
		}
		back := w.latency(c, f.name)
		if f.Op == fault.Renew && c.lag > 0 {
			back, c.lag = c.lag, 0
			w.noteFault(c, "renewal late", back.String())
			c.faultAt = max(c.faultAt, w.Now()+back)
		}
		w.reply(f, back, answer)
	}})
}

// reply brings an answer to the process.
func (w *simulation) reply(f *flight, d time.Duration, answer func()) {
	w.push(&event{what: atReply, due: w.Now() + d, c: f.c, name: f.name, run: answer})
}

// noteFault records that a client has a fault now.
func (w *simulation) noteFault(c *client, what, name string) {
	w.log(c, what, name)
	w.faults[what]++
	c.faultAt = max(c.faultAt, w.Now())
}

// noteEnd records that a fault of a client is over.
func (w *simulation) noteEnd(c *client, what, name string) {
	w.log(c, what, name)
	c.faultAt = max(c.faultAt, w.Now())
}

// pause stops a process.
func (w *simulation) pause(c *client, d time.Duration) {
	w.noteFault(c, "pause", d.String())
	c.pausedTill = max(c.pausedTill, w.Now()+d)
	c.paused = true
	w.push(&event{what: atFault, due: w.Now() + d, c: c, run: func() { w.repair(c) }})
}

// cut cuts its network.
func (w *simulation) cut(c *client, way fault.Direction, d time.Duration) {
	w.noteFault(c, "cut "+way.String(), d.String())
	if way&fault.Requests != 0 {
		c.requestsTill = max(c.requestsTill, w.Now()+d)
	}
	if way&fault.Replies != 0 {
		c.repliesTill = max(c.repliesTill, w.Now()+d)
	}
	breaks := way &^ c.cut & fault.Replies
	c.cut |= way
	if breaks != 0 {
		w.breakWatches(c)
	}
	w.push(&event{what: atFault, due: w.Now() + d, c: c, run: func() { w.repair(c) }})
}

// repair ends the faults of a client whose time has passed.
func (w *simulation) repair(c *client) {
	now := w.Now()
	if c.cut&fault.Requests != 0 && c.requestsTill <= now {
		c.cut &^= fault.Requests
		w.noteEnd(c, "heals", "requests")
	}
	if c.cut&fault.Replies != 0 && c.repliesTill <= now {
		c.cut &^= fault.Replies
		w.noteEnd(c, "heals", "replies")
		c.mem.Heal()
		w.woke = true // it requests the watches anew
	}
	if !c.paused || c.pausedTill > now {
		return
	}
	c.paused = false
	c.resumed = now
	w.noteEnd(c, "runs again", "")
	if !w.cfg.SlowClock && w.chance(2) { // in half of the cases, because Remaining may end what would end by itself
		w.awake(c)
		synctest.Wait() // otherwise it would be a race which requests come too late
	}
	kept := c.kept
	c.kept = nil
	events := make(map[string]time.Duration) // when a session gets the events that it has missed
	for i, e := range kept {
		switch e.what {
		case atLaunch:
			w.launch(e.req)
			continue
		case atDeliver: // in their order, and before later ones
			at, ok := events[e.name]
			if !ok {
				at = w.before(c, e.name, now+w.in(0, time.Millisecond))
				events[e.name] = at
			}
			e.due = at - time.Duration(len(kept)-i)
			c.delivered[e.name] = max(c.delivered[e.name], e.due)
		default:
			e.due = now + w.in(0, 2*time.Millisecond)
		}
		w.push(e)
	}
	if len(kept) > 0 { // launch may have woken goroutines
		w.woke = true
	}
}

// before returns a time that is not after the events on their way to a session.
func (w *simulation) before(c *client, session string, at time.Duration) time.Duration {
	for _, e := range w.events {
		if e.what == atDeliver && e.c == c && e.name == session {
			at = min(at, e.due)
		}
	}
	return at
}

// breakWatches drops the events on their way to a client.
func (w *simulation) breakWatches(c *client) {
	c.epoch++
	clear(c.delivered)
	c.mem.Cut(fault.Replies) // of a cut, this part matters to watches
}

// heal ends all faults, for good.
func (w *simulation) heal() {
	w.log(nil, "healed", "")
	w.healed = true
	for _, c := range w.clients {
		c.pausedTill, c.requestsTill, c.repliesTill = 0, 0, 0
		w.repair(c)
	}
	for _, f := range slices.Clone(w.foreign) {
		w.removeForeign(f)
	}
	w.healedAt = w.Now()
	w.observe()
}

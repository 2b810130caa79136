package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/session"
)

// finished is what is known of the work with one key under one lock.
type finished struct {
	queue *queue
	key   string
}

// onceBound is how long a call of Once may take when its context has ended and the work is done:
// for the record, and for Unlock.
const onceBound = time.Second + unlockBound

// onceRound has work done once for a key, one of few.
func onceRound(k *worker) {
	as := wanted{queues: []*queue{k.one()}}
	work := finished{as.queues[0], name("key", k.random.IntN(4))}
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	a := &attempt{k: k, called: k.w.Now(), ends: -1}
	if k.chance(2) {
		k.w.post(&event{
			what: atActor, c: k.c, name: k.name + " gives up", num: k.c.true(k.in(0, ttl)),
			idle: func() bool { return a.returned },
			run:  func() { a.ends = k.w.Now(); cancel() },
		})
	}
	var hd *hold
	err := k.mutex(as.queues[0]).Once(ctx, work.key, func(_ context.Context, h *session.Hold) error {
		hd = k.takes(a, as, h)
		k.w.report(k.name, func() { k.w.runs(a, work) })
		k.sleep(0, 0)
		k.keep(hd)
		hd.released, hd.back = true, k.w.Now()
		return nil
	})
	a.returned = true
	k.w.report(k.name, func() { k.w.onceReturned(a, hd, work, err) })
	k.sleep(0, 0)
}

// runs checks that the work of a key is not done again when a call for it has succeeded.
func (w *simulation) runs(a *attempt, work finished) {
	w.log(a.k.c, "runs", a.k.name+" "+work.key)
	if at, done := w.done[work]; done && at < a.called {
		w.fail("S8", "%s does the work of %s under %s again", a.k.name, work.key, work.queue.name)
	}
}

// onceReturned checks the end of a call: that it came in time, if its context has ended.
func (w *simulation) onceReturned(a *attempt, hd *hold, work finished, err error) {
	w.moved = w.Now()
	w.log(a.k.c, "once", fmt.Sprint(a.k.name, " ", work.key, ": ", err))
	if _, known := w.done[work]; err == nil && !known {
		w.done[work] = w.Now()
	}
	most, since := unlockBound, max(a.ends, a.k.c.resumed)
	if hd != nil {
		hd.forget()
		most, since = onceBound, max(since, hd.back)
	}
	if late := w.Now() - since; a.ends >= 0 && late > most {
		w.fail("S6", "%s returned %s after its context had ended and its work was done", a.k.name, late)
	}
}

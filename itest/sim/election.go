package sim

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// observer observes an election.
type observer struct {
	w       *simulation
	c       *client
	name    string
	cancel  context.CancelFunc
	last    election.Leader
	count   int
	top     session.Token
	over    bool // it has ended
	awaited bool // and the run waits for that
}

// watch starts an observer of the election on a client.
func (w *simulation) watch(c *client) {
	ctx, cancel := context.WithCancel(context.Background())
	o := &observer{w: w, c: c, name: name("o", len(w.watched)), cancel: cancel}
	w.watched = append(w.watched, o)
	go func() { // ends with its context, and reports that
		<-c.opened
		ctx := context.WithValue(ctx, actor{}, o.name)
		for l, err := range election.New(c.session, w.queues[0].name).Observe(ctx) {
			w.report(o.name, func() { o.sees(l, err) })
		}
		w.report(o.name+" done", func() {
			o.over = true
			if o.awaited {
				w.busy--
			}
		})
	}()
}

// sees records a result of Observe.
func (o *observer) sees(l election.Leader, err error) {
	if err != nil {
		o.w.fail("L1", "%s cannot observe: %v", o.name, err)
		return
	}
	o.w.log(o.c, "observes", o.name+" "+l.Value)
	if o.count > 0 && o.last.Token == l.Token && o.last.Value == l.Value {
		o.w.fail("L1", "%s got the same leader twice: %q", o.name, l.Value)
	}
	o.last = l
	o.count++
	if !l.Vacant() {
		if l.Token < o.top {
			o.w.fail("S2", "%s saw leader %d after %d", o.name, l.Token, o.top)
		}
		o.top = l.Token
	}
}

// check checks that Observe has yielded the last state.
func (o *observer) check() {
	if o.w.Now()-max(o.w.queues[0].changed, o.c.lastFault()) < prompt {
		return // the event may be on its way
	}
	var token session.Token
	value := ""
	if alive := o.w.queues[0].alive; len(alive) > 0 {
		token, value = session.Token(alive[0].Token), string(alive[0].Data)
	}
	if o.last.Token != token || o.last.Value != value {
		o.w.fail("L1", "%s saw leader %d, %q last, which is %d, %q", o.name, o.last.Token, o.last.Value, token, value)
	}
}

// proclaim changes the value of a leader.
func (k *worker) proclaim(e *election.Election, hd *hold, value string) {
	if hd == nil {
		return
	}
	ctx, cancel := driver.WithTimeout(k.ctx, k.c, time.Second)
	err := e.Proclaim(ctx, hd.h, value)
	cancel()
	k.w.report(k.name, func() {
		switch place := hd.entries[0]; {
		case err == nil && !place.gone && string(place.Data) != value:
			k.w.fail("S5", "%s has proclaimed %q, and its entry has %q", k.name, value, place.Data)
		case err != nil && k.w.calm(hd):
			k.w.fail("S6", "%s cannot proclaim: %v", k.name, err)
		}
	})
	k.sleep(0, 0)
}

// lead campaigns again and again, until its context ends.
func (k *worker) lead(e *election.Election, q *queue) {
	ctx, cancel := context.WithCancel(k.ctx)
	k.w.post(&event{
		what: atActor, c: k.c, name: k.name + " gives up", num: k.c.true(k.in(0, ttl)), run: cancel,
	})
	a := &attempt{k: k, called: k.w.Now(), ends: -1}
	err := e.Run(ctx, k.name+" runs", func(_ context.Context, h *session.Hold) error {
		hd := k.takes(a, wanted{queues: []*queue{q}}, h)
		k.sleep(0, 0)
		k.keep(hd)
		hd.released = true
		k.w.ended(k, hd)
		k.sleep(0, 0)
		a = &attempt{k: k, called: k.w.Now(), ends: -1}
		return nil
	})
	cancel()
	if !isContext(err) && !errors.Is(err, session.ErrNotAcquired) {
		k.w.report(k.name, func() { k.w.fail("S6", "%s stopped leading: %v", k.name, err) })
	}
	k.sleep(0, 0)
}

// electionFinish leads once more, and checks that the observers see it.
func electionFinish(k *worker) {
	q := k.one()
	e := election.New(k.c.session, q.name)
	hd := k.acquire(wanted{queues: []*queue{q}}, func(ctx context.Context) (*session.Hold, error) {
		return e.Campaign(ctx, "the last")
	})
	k.proclaim(e, hd, "the very last")
	k.sleep(quiet, quiet)
	k.w.report(k.name, func() {
		for _, o := range k.w.watched {
			o.check()
		}
	})
	k.release(hd)
}

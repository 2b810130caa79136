package sim

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// observer follows an election.
type observer struct {
	w       *world
	c       *client
	name    string
	cancel  context.CancelFunc
	last    election.Leader
	told    int
	top     session.Token
	over    bool // it has ended
	awaited bool // and somebody waits for that
}

// watch has somebody observe the election, from a client.
func (w *world) watch(c *client) {
	ctx, cancel := context.WithCancel(context.Background())
	o := &observer{w: w, c: c, name: name("o", len(w.watched)), cancel: cancel}
	w.watched = append(w.watched, o)
	go func() { // ends with its context, and then says so
		<-c.opened
		ctx := context.WithValue(ctx, actor{}, o.name)
		for l, err := range election.New(c.session, w.lines[0].name).Observe(ctx) {
			w.tell(o.name, func() { o.sees(l, err) })
		}
		w.tell(o.name+" done", func() {
			o.over = true
			if o.awaited {
				w.busy--
			}
		})
	}()
}

// sees takes in what it was told.
func (o *observer) sees(l election.Leader, err error) {
	if err != nil {
		o.w.fail("L1", "%s cannot observe: %v", o.name, err)
		return
	}
	o.w.log(o.c, "observes", o.name+" "+l.Value)
	if o.told > 0 && o.last.Token == l.Token && o.last.Value == l.Value {
		o.w.fail("L1", "%s was told the same twice: %q", o.name, l.Value)
	}
	o.last = l
	o.told++
	if !l.Vacant() {
		if l.Token < o.top {
			o.w.fail("S2", "%s saw leader %d after %d", o.name, l.Token, o.top)
		}
		o.top = l.Token
	}
}

// check checks that the last state was told.
func (o *observer) check() {
	if o.w.Now()-max(o.w.lines[0].changed, o.c.ill()) < prompt {
		return // it may be on its way
	}
	var token session.Token
	value := ""
	if alive := o.w.lines[0].alive; len(alive) > 0 {
		token, value = session.Token(alive[0].Token), string(alive[0].Data)
	}
	if o.last.Token != token || o.last.Value != value {
		o.w.fail("L1", "%s saw leader %d, %q last, which is %d, %q", o.name, o.last.Token, o.last.Value, token, value)
	}
}

// proclaim changes what a leader says.
func (k *worker) proclaim(e *election.Election, hd *hold, value string) {
	if hd == nil {
		return
	}
	ctx, cancel := driver.WithTimeout(k.ctx, k.c, time.Second)
	err := e.Proclaim(ctx, hd.h, value)
	cancel()
	k.w.tell(k.name, func() {
		switch place := hd.entries[0]; {
		case err == nil && !place.gone && string(place.Data) != value:
			k.w.fail("S5", "%s has proclaimed %q, and it says %q", k.name, value, place.Data)
		case err != nil && k.w.calm(hd):
			k.w.fail("S6", "%s cannot proclaim: %v", k.name, err)
		}
	})
	k.sleep(0, 0)
}

// lead campaigns again and again, until its context ends.
func (k *worker) lead(e *election.Election, ln *line) {
	ctx, cancel := context.WithCancel(k.ctx)
	k.w.post(&event{
		what: atActor, c: k.c, name: k.name + " gives up", num: k.c.true(k.in(0, ttl)), run: cancel,
	})
	a := &attempt{k: k, called: k.w.Now(), ends: -1}
	err := e.Run(ctx, k.name+" runs", func(_ context.Context, h *session.Hold) error {
		hd := k.takes(a, asked{lines: []*line{ln}}, h)
		k.sleep(0, 0)
		k.keep(hd)
		hd.given = true
		k.w.ended(k, hd)
		k.sleep(0, 0)
		a = &attempt{k: k, called: k.w.Now(), ends: -1}
		return nil
	})
	cancel()
	if !isContext(err) && !errors.Is(err, session.ErrNotAcquired) {
		k.w.tell(k.name, func() { k.w.fail("S6", "%s stopped leading: %v", k.name, err) })
	}
	k.sleep(0, 0)
}

// electionFinish leads once more, and lets the observers see it.
func electionFinish(k *worker) {
	ln := k.one()
	e := election.New(k.c.session, ln.name)
	hd := k.acquire(asked{lines: []*line{ln}}, func(ctx context.Context) (*session.Hold, error) {
		return e.Campaign(ctx, "the last")
	})
	k.proclaim(e, hd, "the very last")
	k.sleep(quiet, quiet)
	k.w.tell(k.name, func() {
		for _, o := range k.w.watched {
			o.check()
		}
	})
	k.giveBack(hd)
}

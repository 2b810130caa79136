package drivertest

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/session/driver"
)

// queue is the queue of cases that need only one.
const queue = "orders/settle"

// everything is a place behind all places.
const everything = 1 << 60

// fixture is what one case runs on.
type fixture struct {
	t   *testing.T
	h   Harness
	svc Service
	ctx context.Context //nolint:containedctx // the test's own

	short   time.Duration // the TTL of cases about ends of sessions
	clients []Client      // all of the case
}

func newFixture(t *testing.T, h Harness) *fixture {
	w := &fixture{t: t, h: h, svc: h.Service(t), ctx: t.Context(), short: h.TTL}
	w.h.TTL = cmp.Or(h.Calm, h.TTL)
	return w
}

// expires is called first in cases in which sessions come to their end.
func (w *fixture) expires() { w.h.TTL = w.short }

// renews is called first in cases that wait for renewals.
func (w *fixture) renews() { w.h.TTL = 2 * w.short }

// attend keeps an observer open that watches a queue, on a service on which sessions end only
// where a client looks.
func (w *fixture) attend(name string) {
	w.t.Helper()
	if w.h.Observed {
		w.observe().armedAt(ofQueue(name))
	}
}

// others puts an entry at the end of the queue that belongs to another program, or, where there are
// none, to another client.
func (w *fixture) others() driver.Ref {
	w.t.Helper()
	if w.h.NoForeign {
		return w.open().join(queue).Entry.Ref
	}
	return w.svc.PutForeign(w.t, queue, true)
}

// bound is how long a case waits for what must come before it counts as a hang. No claim
// about time rests on it.
func (w *fixture) bound() time.Duration {
	if !w.h.Virtual {
		return hang.Guard
	}
	return 3*w.h.TTL + 2*time.Second
}

// soon is a context for what must come, within one for what takes at most d.
func (w *fixture) soon() context.Context { return w.within(w.bound()) }

func (w *fixture) within(d time.Duration) context.Context {
	ctx, stop := context.WithTimeout(w.ctx, d)
	w.t.Cleanup(stop)
	return ctx
}

// moment is the length of a context that ends while a request is under way.
func (w *fixture) moment() context.Context { return w.within(w.short / 20) }

// unanswered makes a call whose request the service gets and whose replies are cut, and
// cancels its context once the service has done it.
func (o *owner) unanswered(op fault.Op, done func() bool, call func(ctx context.Context)) {
	w := o.w
	w.t.Helper()
	o.c.CutRepliesTo(op)
	ctx, cancel := context.WithCancel(w.soon())
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		call(ctx)
	}()
	defer func() { <-returned }()
	defer cancel()
	w.eventually(done, "the service does what no reply reports")
}

// client returns a client whose backend is closed with the case, after the sessions on
// it.
func (w *fixture) client() Client {
	c := w.svc.Client(w.t)
	w.clients = append(w.clients, c)
	w.t.Cleanup(func() {
		c.Heal()
		assert.NoError(w.t, c.Backend().Close(), "Backend.Close")
	})
	return c
}

// settle brings a failed Join to a known end, with a context of its own: that of the
// Join has ended.
//
//nolint:contextcheck // see above
func (w *fixture) settle(err error) {
	w.t.Helper()
	var p *driver.PendingError
	if !errors.As(err, &p) {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), w.bound())
	defer stop()
	err = p.Settle(ctx)
	if !errors.Is(err, driver.ErrSessionOver) { // the entries end with it then
		require.NoError(w.t, err, "Settle")
	}
}

// count requires a number of entries at the service, now.
func (w *fixture) count(want int, name, why string) {
	w.t.Helper()
	require.Equal(w.t, want, w.svc.Count(w.t, name), "entries of %q: %s", name, why)
}

// becomes waits until a queue has n entries.
func (w *fixture) becomes(n int, name, why string) {
	w.t.Helper()
	w.eventually(func() bool { return w.svc.Count(w.t, name) == n }, why)
}

// undone requires a number of entries after a join that arrived late: now, or soon where
// the backend can only delete what the join has made.
func (w *fixture) undone(want int, name, why string) {
	w.t.Helper()
	if w.h.Undone {
		w.becomes(want, name, why)
	}
	w.count(want, name, why)
}

// eventually waits until a condition holds. It polls in the case's own goroutine, so a
// condition may end the case.
func (w *fixture) eventually(cond func() bool, why string) {
	w.t.Helper()
	deadline := time.Now().Add(w.bound())
	for !cond() {
		if time.Now().After(deadline) {
			require.Fail(w.t, "timeout", why)
		}
		time.Sleep(w.short / 100) // no event shows this from outside, so poll
	}
}

// prompt runs a call that must return soon after ctx has ended, whatever the network
// does. The time in which the process did not run does not count. A call that does not
// return is given a healthy network, to end the case.
func (w *fixture) prompt(c Client, what string, ended <-chan struct{}, call func()) {
	w.t.Helper()
	machine := metronome.Start()
	defer machine.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
		return
	case <-ended:
	}
	began := time.Now()
	for left := w.h.Prompt; left > 0; left = w.h.Prompt - time.Since(began) + machine.Stalled(began) {
		select {
		case <-done:
			return
		case <-time.After(left):
		}
	}
	assert.Fail(w.t, what+" has not returned "+w.h.Prompt.String()+" after its context ended")
	c.Heal()
	<-done
}

// exact requires that a claim holds about what one attempt of a request does. In real time
// the claim has five rounds, of which it must hold in one, because a machine may stand still. A
// round in which an answer was late does not count: the request was sent again.
func (w *fixture) exact(holds func() bool, why string, args ...any) {
	w.t.Helper()
	end := time.Now().Add(w.bound())
	for rounds := 0; rounds < 5; {
		late := w.late()
		if holds() {
			return
		}
		if w.h.Virtual {
			break
		}
		if w.late() == late || time.Now().After(end) {
			rounds++
		}
	}
	assert.Fail(w.t, "does not hold", append([]any{why}, args...)...)
}

// late is Client.Late of all clients.
func (w *fixture) late() (n int) {
	for _, c := range w.clients {
		n += c.Late()
	}
	return n
}

// refs are the names of entries, in their order.
func refs(entries []driver.Entry) []driver.Ref {
	all := make([]driver.Ref, 0, len(entries))
	for _, e := range entries {
		all = append(all, e.Ref)
	}
	return all
}

// The requests of the recipes, for entries of the queue.

func plain() driver.JoinRequest { return driver.JoinRequest{Queue: queue, Data: []byte("mine")} }

func writer() driver.JoinRequest {
	return driver.JoinRequest{Queue: queue, Family: driver.FamilyReadWrite, Data: []byte("writer")}
}

func reader() driver.JoinRequest {
	return driver.JoinRequest{Queue: queue, Mode: driver.Shared, Family: driver.FamilyReadWrite}
}

func weighted(weight int64) driver.JoinRequest {
	return driver.JoinRequest{Queue: queue, Mode: driver.Weighted, Weight: weight}
}

func valued(value string) driver.JoinRequest {
	return driver.JoinRequest{Queue: queue, Data: []byte(value), Valued: true, Detail: []byte("of a candidate")}
}

func latch() driver.JoinRequest {
	return driver.JoinRequest{Queue: queue, Family: driver.FamilyLatch}
}

// kinds are requests for entries of every kind.
func kinds() []driver.JoinRequest {
	return []driver.JoinRequest{plain(), writer(), reader(), weighted(2), valued("10.0.0.7:80"), latch()}
}

// ending is a way of an entry to end.
type ending struct {
	name string
	end  func(o *owner, ref driver.Ref)
}

// String names the ending in the names of cases.
func (e ending) String() string { return e.name }

func endings() []ending {
	return []ending{
		{"Leave", func(o *owner, ref driver.Ref) { o.leave(ref) }},
		{"Close", func(o *owner, _ driver.Ref) { require.NoError(o.w.t, o.end()) }},
		{"Expiry", func(o *owner, _ driver.Ref) { o.w.svc.Expire(o.w.t, o.ID()) }},
		{"Deletion", func(o *owner, ref driver.Ref) { o.w.svc.Delete(o.w.t, ref) }},
	}
}

package recipetest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// yieldRequests are the cases of yield requests to holders.
func yieldRequests() []testCase {
	return slices.Concat(
		[]testCase{
			{"AYieldRequestShowsItsSenderAndReason", yieldShown},
			{"AYieldRequestFromBeforeTheGrantIsDelivered", yieldBeforeGrant},
			{"YieldRequestsAreDeliveredOnceEachInOrder", yieldInOrder},
			{"AYieldRequestDoesNotAffectTheQueue", yieldAside},
			{"AYieldRequestEndsWithTheSessionOfItsSender", yieldOfExpired},
			{"AWithdrawnYieldRequestIsNotDelivered", yieldWithdrawn},
			{"AskedEndsWithItsContextAndItsHold", yieldEnds},
			{"AYieldRequestReachesAHolderAfterACut", yieldCutOff},
		},
		over("AYieldRequestWith%vIsMadeOnceAndWithdrawn", fault.Retryable(), yieldFault),
	)
}

// requestYield sends a yield request for a lock, and ends the case if it cannot.
func (p *Client) requestYield(lock, reason string) (withdraw func()) {
	p.w.t.Helper()
	f, err := yield.Send(p.w.soon(), p.Session, lock, reason)
	require.NoError(p.w.t, err, "ask")
	return func() {
		p.w.t.Helper()
		before := p.w.svc.Count(p.w.t, driver.AskQueue(lock))
		if err := f(); err != nil {
			require.True(p.w.t, late(err) && !p.w.h.Virtual, "withdraw: %v", err)
			p.w.until("withdrawn", func() bool { return p.w.svc.Count(p.w.t, driver.AskQueue(lock)) < before })
		}
	}
}

// nextYield returns the reason of the next yield request that a hold gets.
func (w *Fixture) nextYield(h *session.Hold) string {
	w.t.Helper()
	a, err := yield.Next(w.soon(), h)
	require.NoError(w.t, err, "asked")
	return a.Reason
}

// noYield requires that there is no yield request that the hold has not got yet.
func (w *Fixture) noYield(h *session.Hold) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), w.short/10)
	defer cancel()
	a, err := yield.Next(ctx, h)
	require.ErrorIs(w.t, err, context.DeadlineExceeded, "%+v", a)
}

// yieldReasons returns the reasons of all yield requests for the lock.
func (w *Fixture) yieldReasons(s *session.Session) (reasons []string) {
	w.t.Helper()
	all, err := yield.List(w.soon(), s, name)
	require.NoError(w.t, err, "asks")
	for _, a := range all {
		assert.Equal(w.t, name, a.Name)
		assert.NotEmpty(w.t, a.Session)
		reasons = append(reasons, a.Reason)
	}
	return reasons
}

// subscription is a call of Asked under way.
type subscription struct {
	done chan struct{}
	ask  yield.Request
	err  error
}

func subscribe(ctx context.Context, h *session.Hold) *subscription {
	l := &subscription{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.ask, l.err = yield.Next(ctx, h)
	}()
	return l
}

// received waits until Asked has returned, for less than the time after which it reads
// without an event.
func (w *Fixture) received(l *subscription) (yield.Request, error) {
	w.t.Helper()
	w.woken(l.done, "the end of Asked")
	return l.ask, l.err
}

func yieldShown(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	l := subscribe(w.soon(), h)
	w.still("there is no request") // and the watch is armed, or not yet
	before := b.Clock().Wall()
	withdraw := b.requestYield(name, "a deploy\nat noon")

	got, err := w.received(l)
	require.NoError(w.t, err)
	host, _ := os.Hostname()
	assert.WithinRange(w.t, got.Since, before.Add(-time.Millisecond), b.Clock().Wall())
	got.Since = time.Time{}
	assert.Equal(w.t, yield.Request{
		Name: name, Reason: "a deploy\nat noon", Host: host, PID: os.Getpid(), Label: "b", Session: got.Session,
	}, got)
	assert.NotEmpty(w.t, got.Session)
	require.NoError(w.t, h.Context().Err(), "the hold goes on")
	assert.NotZero(w.t, h.Remaining())
	withdraw()
	w.unlock(h)
}

func yieldBeforeGrant(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	b.requestYield(name, "early")
	h := a.hold()
	r := b.queue(w.soon())
	require.Equal(w.t, "early", w.nextYield(h))
	w.noYield(h)
	w.unlock(h)
	h = r.granted()
	require.Equal(w.t, "early", w.nextYield(h), "the next holder gets it too, also from its own session")
	w.unlock(h)
}

func yieldInOrder(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.hold()
	var want []string
	for i, p := range []*Client{b, c, b, a, c} {
		want = append(want, fmt.Sprint("reason ", i))
		p.requestYield(name, want[i])
	}
	require.Equal(w.t, want, w.yieldReasons(c.Session), "any client may read them")
	for _, reason := range want {
		require.Equal(w.t, reason, w.nextYield(h))
	}
	require.Equal(w.t, want, w.yieldReasons(c.Session), "delivered or not")
	w.noYield(h)
	withdraw := b.requestYield(name, "again")
	require.Equal(w.t, "again", w.nextYield(h))
	withdraw()
	w.noYield(h)
	b.requestYield(name, "again")
	require.Equal(w.t, "again", w.nextYield(h), "it is another request")
	w.unlock(h)
}

// yieldAside counts what yield requests cost holders that do not subscribe, and requires
// that the queue does not show them. A new connection is a request too, so the claim is
// less than one request for each yield request.
func yieldAside(w *Fixture) {
	const many = 10
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.hold()
	r := b.queue(w.soon())
	entries := refsOf(a.entries())
	holder, waiter := a.rests(), b.rests()
	for range many {
		withdraw := c.requestYield(name, "hurry")
		require.Equal(w.t, entries, refsOf(c.entries()))
		withdraw()
	}
	assert.Less(w.t, a.rests(), holder+many, "requests of a holder that does not subscribe")
	assert.Less(w.t, b.rests(), waiter+many, "and of a waiter")
	names, err := c.Names(w.soon(), "")
	require.NoError(w.t, err)
	assert.Equal(w.t, []string{name}, names)

	waiter = b.rests()
	for range many {
		l := subscribe(w.soon(), h)
		withdraw := c.requestYield(name, "hurry")
		_, err = w.received(l)
		require.NoError(w.t, err)
		withdraw()
	}
	assert.Less(w.t, b.rests(), waiter+many, "the subscription of another costs a waiter nothing")
	w.eventually(2, "yield requests are not in the queue")
	w.unlock(h)
	w.unlock(r.granted())
}

func refsOf(queue []driver.Entry) []driver.Ref {
	all := make([]driver.Ref, 0, len(queue))
	for _, e := range queue {
		all = append(all, e.Ref)
	}
	return all
}

func yieldOfExpired(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.hold()
	b.requestYield(name, "the expired")
	mine := b.holdOne(name + "2")
	w.svc.Expire(w.t, mine.SessionID())
	c.requestYield(name, "the living")
	require.Equal(w.t, "the living", w.nextYield(h))
	w.noYield(h)
	w.unlock(h)
	require.Error(w.t, mine.Unlock(), "it was lost with the session")
}

func yieldWithdrawn(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	withdraw := b.requestYield(name, "never mind")
	withdraw()
	withdraw()
	w.noYield(h)
	l := subscribe(w.soon(), h)
	for range 5 { // each may be delivered, and must not be once it is withdrawn
		b.requestYield(name, "never mind")()
	}
	b.requestYield(name, "mind")
	got, err := w.received(l)
	for err == nil && got.Reason == "never mind" {
		got, err = yield.Next(w.soon(), h)
	}
	require.NoError(w.t, err)
	assert.Equal(w.t, "mind", got.Reason)
	w.unlock(h)
}

func yieldEnds(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	ctx, cancel := context.WithCancel(w.soon())
	l := subscribe(ctx, h)
	w.still("there is no request")
	cancel()
	_, err := w.received(l)
	require.ErrorIs(w.t, err, context.Canceled)
	require.ErrorContains(w.t, err, fmt.Sprintf("%q", name))
	require.NoError(w.t, h.Context().Err(), "the hold goes on")

	l = subscribe(w.soon(), h)
	w.still("there is no request")
	w.unlock(h)
	_, err = w.received(l)
	require.ErrorIs(w.t, err, session.ErrUnlocked)
	b.requestYield(name, "too late")
	a.sends(0, "after the release", func() {
		_, err = yield.Next(w.soon(), h)
		require.ErrorIs(w.t, err, session.ErrUnlocked, "whatever requests there are")
	})

	h = w.holdLong(a)
	require.Equal(w.t, "too late", w.nextYield(h))
	l = subscribe(w.soon(), h)
	w.still("that one was delivered")
	w.svc.Delete(w.t, Refs(h)[0])
	_, err = w.received(l)
	var lost *session.LostError
	require.ErrorAs(w.t, err, &lost)
	assert.Equal(w.t, session.ReasonDeleted, lost.Reason)
	_, err = yield.Next(w.soon(), h)
	require.ErrorIs(w.t, err, session.ErrLost)
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
}

// yieldCutOff: a yield request whose event was lost is delivered after the cut. A holder
// that is cut off until its deadline gets the loss of the hold.
func yieldCutOff(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	for _, d := range fault.Directions() {
		l := subscribe(w.soon(), h)
		w.still("there is no request")
		a.net.Cut(d)
		b.requestYield(name, d.String())
		time.Sleep(w.short / 20) // cut off for a while, and not long enough to lose the session
		a.net.Heal()
		got, err := w.received(l)
		require.NoError(w.t, err)
		assert.Equal(w.t, d.String(), got.Reason)
	}
	w.unlock(h)

	a = w.mortal("a")
	h = a.holdOne("short")
	l := subscribe(w.soon(), h)
	x := endOf(h)
	w.still("there is no request")
	a.net.Cut(fault.Both)
	b.requestYield("short", "not delivered")
	w.when(x)
	within(w.t, w.timeout(), l.done, "the end of Asked")
	require.ErrorIs(w.t, l.err, session.ErrLost)
	a.net.Heal()
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
}

// yieldFault: a withdrawal that is not acknowledged in a second is finished in the background.
func yieldFault(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	b.requestYield(name, "so that the queue of requests is there")()
	b.net.Inject(fault.Join, f)
	withdraw, err := yield.Send(w.soon(), b.Session, name, "once")
	require.NoError(w.t, err)
	require.Equal(w.t, "once", w.nextYield(h))
	w.noYield(h)
	b.net.Inject(fault.Leave, f)
	if err := withdraw(); err != nil {
		require.ErrorIs(w.t, err, session.ErrReleasePending)
	}
	w.empty(driver.AskQueue(name))
	w.unlock(h)
	h = b.hold()
	w.noYield(h)
	w.unlock(h)
}

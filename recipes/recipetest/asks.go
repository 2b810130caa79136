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
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// asks are the cases of holders that are asked to yield.
func asks() []testCase {
	return slices.Concat(
		[]testCase{
			{"AHolderIsAskedAndToldByWhomAndWhy", askedTold},
			{"AnAskBeforeTheGrantCounts", askedBefore},
			{"SeveralAsksAreToldOnceEachInTheirOrder", askedOften},
			{"AnAskIsOfNoConcernToTheLine", askedAside},
			{"AnAskGoesWithItsAsker", askedByTheDead},
			{"AWithdrawnAskIsNotTold", askedAndWithdrawn},
			{"ListeningEndsWithItsContextAndItsHold", askedEnds},
			{"AHolderCutOffIsAskedWhenItIsBack", askedCutOff},
			{"AForeignNodeAmongTheAsksIsNoAsk", askedForeign},
		},
		over("AnAskWith%vIsOneAskAndWithdrawn", fault.Retryable(), askedStruck),
	)
}

// asksFor asks for a lock, and ends the case if it cannot.
func (p *Client) asksFor(lock, reason string) (withdraw func()) {
	p.w.t.Helper()
	f, err := p.Ask(p.w.soon(), lock, reason)
	require.NoError(p.w.t, err, "ask")
	return func() {
		p.w.t.Helper()
		require.NoError(p.w.t, f(), "withdraw")
	}
}

// asked returns the reason that a hold is told next.
func (w *Fixture) asked(h *session.Hold) string {
	w.t.Helper()
	a, err := h.Asked(w.soon())
	require.NoError(w.t, err, "asked")
	return a.Reason
}

// unasked requires that nobody asks whom the hold was not told of.
func (w *Fixture) unasked(h *session.Hold) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), w.h.TTL/10)
	defer cancel()
	a, err := h.Asked(ctx)
	require.ErrorIs(w.t, err, context.DeadlineExceeded, "%+v", a)
}

// asking are the reasons of all who ask for the lock now.
func (w *Fixture) asking(s *session.Session) (reasons []string) {
	w.t.Helper()
	all, err := s.Asks(w.soon(), name)
	require.NoError(w.t, err, "asks")
	for _, a := range all {
		assert.Equal(w.t, name, a.Name)
		assert.NotEmpty(w.t, a.Session)
		reasons = append(reasons, a.Reason)
	}
	return reasons
}

// listening is a call of Asked under way.
type listening struct {
	done chan struct{}
	ask  session.Ask
	err  error
}

func listen(ctx context.Context, h *session.Hold) *listening {
	l := &listening{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.ask, l.err = h.Asked(ctx)
	}()
	return l
}

// heard waits until Asked has returned, for less than the time after which it reads
// without being told.
func (w *Fixture) heard(l *listening) (session.Ask, error) {
	w.t.Helper()
	within(w.t, wake, l.done, "the end of Asked")
	return l.ask, l.err
}

func askedTold(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	l := listen(w.soon(), h)
	w.still("nobody asks") // and the watch stands, or does not yet
	before := b.Clock().Wall()
	withdraw := b.asksFor(name, "a deploy\nat noon")

	got, err := w.heard(l)
	require.NoError(w.t, err)
	host, _ := os.Hostname()
	assert.WithinRange(w.t, got.Since, before.Add(-time.Millisecond), b.Clock().Wall())
	got.Since = time.Time{}
	assert.Equal(w.t, session.Ask{
		Name: name, Reason: "a deploy\nat noon", Host: host, PID: os.Getpid(), Label: "b", Session: got.Session,
	}, got)
	assert.NotEmpty(w.t, got.Session)
	require.NoError(w.t, h.Context().Err(), "it is only asked")
	assert.NotZero(w.t, h.Remaining())
	withdraw()
	w.unlock(h)
}

func askedBefore(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	b.asksFor(name, "early")
	h := a.hold()
	r := b.queue(w.soon())
	require.Equal(w.t, "early", w.asked(h))
	w.unasked(h)
	w.unlock(h)
	h = r.granted()
	require.Equal(w.t, "early", w.asked(h), "the next one is asked too, also by himself")
	w.unlock(h)
}

func askedOften(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.hold()
	var want []string
	for i, p := range []*Client{b, c, b, a, c} {
		want = append(want, fmt.Sprint("reason ", i))
		p.asksFor(name, want[i])
	}
	require.Equal(w.t, want, w.asking(c.Session), "and anybody may look")
	for _, reason := range want {
		require.Equal(w.t, reason, w.asked(h))
	}
	require.Equal(w.t, want, w.asking(c.Session), "told or not")
	w.unasked(h)
	withdraw := b.asksFor(name, "again")
	require.Equal(w.t, "again", w.asked(h))
	withdraw()
	w.unasked(h)
	b.asksFor(name, "again")
	require.Equal(w.t, "again", w.asked(h), "asked anew it is another ask")
	w.unlock(h)
}

// askedAside counts what asks cost those who do not listen, and looks for them in
// the line. A connection that is lost and made again is a request too; so what is
// wanted is less than one for each ask.
func askedAside(w *Fixture) {
	const many = 10
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.hold()
	r := b.queue(w.soon())
	line := refsOf(a.entries())
	holder, waiter := a.rests(), b.rests()
	for range many {
		withdraw := c.asksFor(name, "hurry")
		require.Equal(w.t, line, refsOf(c.entries()))
		withdraw()
	}
	assert.Less(w.t, a.rests(), holder+many, "requests of a holder that does not listen")
	assert.Less(w.t, b.rests(), waiter+many, "and of a waiter")
	names, err := c.Names(w.soon(), "")
	require.NoError(w.t, err)
	assert.Equal(w.t, []string{name}, names)

	waiter = b.rests()
	for range many {
		l := listen(w.soon(), h)
		withdraw := c.asksFor(name, "hurry")
		_, err = w.heard(l)
		require.NoError(w.t, err)
		withdraw()
	}
	assert.Less(w.t, b.rests(), waiter+many, "that another listens costs a waiter nothing")
	w.eventually(2, "asks are not in the line")
	w.unlock(h)
	w.unlock(r.granted())
}

func refsOf(line []driver.Entry) []driver.Ref {
	all := make([]driver.Ref, 0, len(line))
	for _, e := range line {
		all = append(all, e.Ref)
	}
	return all
}

func askedByTheDead(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.hold()
	b.asksFor(name, "the dead")
	mine := b.holdOne(name + "2")
	w.svc.Expire(w.t, mine.SessionID())
	c.asksFor(name, "the living")
	require.Equal(w.t, "the living", w.asked(h))
	w.unasked(h)
	w.unlock(h)
	require.Error(w.t, mine.Unlock(), "it was lost with the session")
}

func askedAndWithdrawn(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	withdraw := b.asksFor(name, "never mind")
	withdraw()
	withdraw()
	w.unasked(h)
	l := listen(w.soon(), h)
	for range 5 { // told or not; but never what stands afterwards
		b.asksFor(name, "never mind")()
	}
	b.asksFor(name, "mind")
	got, err := w.heard(l)
	for err == nil && got.Reason == "never mind" {
		got, err = h.Asked(w.soon())
	}
	require.NoError(w.t, err)
	assert.Equal(w.t, "mind", got.Reason)
	w.unlock(h)
}

func askedEnds(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	ctx, cancel := context.WithCancel(w.soon())
	l := listen(ctx, h)
	w.still("nobody asks")
	cancel()
	_, err := w.heard(l)
	require.ErrorIs(w.t, err, context.Canceled)
	require.ErrorContains(w.t, err, fmt.Sprintf("%q", name))
	require.NoError(w.t, h.Context().Err(), "the hold goes on")

	l = listen(w.soon(), h)
	w.still("nobody asks")
	w.unlock(h)
	_, err = w.heard(l)
	require.ErrorIs(w.t, err, session.ErrUnlocked)
	b.asksFor(name, "too late")
	before := a.rests()
	_, err = h.Asked(w.soon())
	require.ErrorIs(w.t, err, session.ErrUnlocked, "whatever is there")
	assert.Equal(w.t, before, a.net.Requests(), "nothing is sent")

	h = w.holdLong(a)
	require.Equal(w.t, "too late", w.asked(h))
	l = listen(w.soon(), h)
	w.still("it was told of that")
	w.svc.Delete(w.t, Refs(h)[0])
	_, err = w.heard(l)
	var lost *session.LostError
	require.ErrorAs(w.t, err, &lost)
	assert.Equal(w.t, session.ReasonDeleted, lost.Reason)
	_, err = h.Asked(w.soon())
	require.ErrorIs(w.t, err, session.ErrLost)
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
}

// askedCutOff: word of an ask that was lost on the way is not waited for in vain;
// and who is cut off for good is told that the hold is lost.
func askedCutOff(w *Fixture) {
	a, b := w.mortal("a"), w.Client("b")
	h := a.hold()
	for _, d := range fault.Directions() {
		l := listen(w.soon(), h)
		w.still("nobody asks")
		a.net.Cut(d)
		b.asksFor(name, d.String())
		time.Sleep(a.Options().TTL / 20) // cut off for a while, and not long enough to lose the session
		a.net.Heal()
		got, err := w.heard(l)
		require.NoError(w.t, err)
		assert.Equal(w.t, d.String(), got.Reason)
	}
	l := listen(w.soon(), h)
	x := tell(h)
	w.still("nobody asks")
	a.net.Cut(fault.Both)
	b.asksFor(name, "in vain")
	w.when(x)
	<-l.done
	require.ErrorIs(w.t, l.err, session.ErrLost)
	a.net.Heal()
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
}

func askedForeign(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	f := w.svc.PutForeign(w.t, driver.AskQueue(name), true)
	if w.h.NoUnleased == "" {
		w.svc.PutForeign(w.t, driver.AskQueue(name), false)
	}
	for _, v := range []string{`{"v":1,"kind":"ask"}`, "\xff", ""} {
		w.svc.Overwrite(w.t, f, []byte(v))
		w.unasked(h)
	}
	require.Empty(w.t, w.asking(b.Session))
	b.asksFor(name, "a real one")
	require.Equal(w.t, "a real one", w.asked(h))
	require.Equal(w.t, []string{"a real one"}, w.asking(b.Session))
	w.unlock(h)
}

// askedStruck: what is not acknowledged in a second is finished in the background.
func askedStruck(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	b.asksFor(name, "so that what it takes is there")()
	b.net.Inject(fault.Join, f)
	withdraw, err := b.Ask(w.soon(), name, "once")
	require.NoError(w.t, err)
	require.Equal(w.t, "once", w.asked(h))
	w.unasked(h)
	b.net.Inject(fault.Leave, f)
	if err := withdraw(); err != nil {
		require.ErrorIs(w.t, err, session.ErrReleasePending)
	}
	w.empty(driver.AskQueue(name))
	w.unlock(h)
	h = b.hold()
	w.unasked(h)
	w.unlock(h)
}

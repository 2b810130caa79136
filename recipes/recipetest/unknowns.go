package recipetest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// unknowns are the cases of downgrades whose outcome is unknown.
func unknowns() []testCase {
	return slices.Concat(
		[]testCase{
			{"DowngradeCutOffReturnsWithItsContext", downgradeCutOff},
			{"DowngradeCutOffForLongIsLost", downgradeCutLong},
		},
		over("DowngradeWith%vIsDone", fault.Retryable(), downgradeFault),
		over("DowngradeGivenUpWith%vThenAgain", fault.Retryable(), downgradeAgain),
		over("DowngradeGivenUpWith%vThenUnlock", fault.Retryable(), downgradeUnlock),
		over("DowngradeGivenUpWith%vThenDeletedIsNotified", fault.Retryable(), downgradeUnknownDeleted),
	)
}

func downgradeCutOff(w *Fixture) {
	for _, d := range fault.Directions() {
		a, b := w.Client("a"), w.Client("b")
		h := a.holds(writing)
		reader, writer := b.queueFor(w.soon(), reading), b.queueFor(w.soon(), writing)
		a.givesUp(d, func(ctx context.Context) error { return rwlock.New(a.Session, name).Downgrade(ctx, h) })
		require.NoError(w.t, h.Context().Err(), "the hold is not lost")
		a.downgrade(h)
		reader.granted()
		w.unlock(h)
		w.wait("a reader holds", writer)
		w.unlock(reader.Hold)
		w.unlock(writer.granted())
		w.eventually(0, "nothing is left")
	}
}

// downgradeCutLong: the call ends with the hold, whatever its context.
func downgradeCutLong(w *Fixture) {
	a, b := w.mortal("a"), w.Client("b")
	h := a.holds(writing)
	x := endOf(h)
	writer := b.queueFor(w.soon(), writing)
	a.givesUpWith(x, func() error { return rwlock.New(a.Session, name).Downgrade(w.soon(), h) })
	w.endsBefore(h, x, writer)
	a.net.Heal()
	w.unlock(writer.Hold)
}

func downgradeFault(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(writing)
	reader, writer := b.queueFor(w.soon(), reading), a.queueFor(w.soon(), writing)
	a.net.Inject(fault.Update, f)
	a.downgrade(h)
	reader.granted()
	w.unlock(h)
	w.wait("a reader holds", writer)
	w.unlock(reader.Hold)
	w.unlock(writer.granted())
}

// downgradeUnknown calls Downgrade so that its outcome is unknown, or is not
// learned in time.
func (p *Client) downgradeUnknown(h *session.Hold, f fault.Kind) {
	p.w.t.Helper()
	ctx, cancel := context.WithCancel(p.w.soon())
	defer cancel()
	p.net.Inject(fault.Update, f)
	p.net.OnRequest(func() { // before the answer
		time.AfterFunc(time.Millisecond, cancel)
	})
	err := rwlock.New(p.Session, name).Downgrade(ctx, h)
	p.net.OnRequest(nil)
	if err != nil {
		require.ErrorIs(p.w.t, err, context.Canceled)
		require.NotErrorIs(p.w.t, err, session.ErrLost)
	}
}

func downgradeAgain(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(writing)
	token := h.Token()
	own, other := a.queueFor(w.soon(), reading), b.queueFor(w.soon(), reading)
	writer := b.queueFor(w.soon(), writing)
	a.downgradeUnknown(h, f)
	w.wait("the hold ahead of the writer still lives", writer)
	a.downgrade(h) // whether the first one is done or not
	own.granted()
	other.granted()
	w.wait("readers hold", writer)

	assert.Equal(w.t, session.Shared, h.Mode())
	assert.Equal(w.t, token, h.Token())
	w.unlock(own.Hold)
	w.unlock(other.Hold)
	w.wait("the downgraded one holds", writer)
	w.unlock(h)
	w.unlock(writer.granted())
}

func downgradeUnlock(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	for _, p := range []*Client{a, b} {
		h := a.holds(writing)
		writer := p.queueFor(w.soon(), writing)
		reader := b.queueFor(w.soon(), reading)
		a.downgradeUnknown(h, f)
		require.NoError(w.t, h.Context().Err())
		w.unlock(h)
		h = writer.granted()
		w.wait("a writer holds", reader)
		w.unlock(h)
		w.unlock(reader.granted())
		w.eventually(0, "nothing is left, and the sessions live")
	}
}

// downgradeUnknownDeleted: a hold whose entry may have another key by now ends when that
// entry is deleted.
func downgradeUnknownDeleted(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(writing)
	x := endOf(h)
	reader, writer := a.queueFor(w.soon(), reading), b.queueFor(w.soon(), writing)
	a.downgradeUnknown(h, f)
	reader.granted() // also one of the same session, without another call of Downgrade
	w.wait("readers hold", writer)
	w.svc.Delete(w.t, b.nth(0).Ref)
	w.when(x)

	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	w.wait("a reader holds", writer)
	w.unlock(reader.Hold)
	w.unlock(writer.granted())
}

// givesUp makes a call while the client is cut off, and requires that it returns when
// its context ends, and does not take the hold for lost.
func (p *Client) givesUp(d fault.Direction, call func(ctx context.Context) error) {
	p.w.t.Helper()
	p.net.Cut(d)
	ctx, cancel := context.WithTimeout(p.w.soon(), p.w.short/20)
	defer cancel()
	err := call(ctx)
	returned := time.Now()

	deadline, _ := ctx.Deadline()
	require.ErrorIs(p.w.t, err, context.DeadlineExceeded, "%v", d)
	require.NotErrorIs(p.w.t, err, session.ErrLost, "%v", d)
	p.w.prompt(deadline, returned, "%v", d)
	p.net.Heal()
}

// givesUpWith is givesUp with a cut that does not end: the call ends with the hold.
func (p *Client) givesUpWith(hold *ending, call func() error) {
	p.w.t.Helper()
	p.net.Cut(fault.Both)
	err := call()
	returned := time.Now()

	require.ErrorIs(p.w.t, err, session.ErrLost)
	p.w.prompt(p.w.when(hold), returned)
}

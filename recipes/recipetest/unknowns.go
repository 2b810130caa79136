package recipetest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// unknowns are the stories of downgrades whose outcome is unknown.
func unknowns() []story {
	return slices.Concat(
		[]story{
			{"DowngradeCutOffReturnsWithItsContext", downgradeCutOff},
			{"DowngradeCutOffForLongIsLost", downgradeCutLong},
		},
		over("DowngradeWith%vIsDone", fault.Retryable(), downgradeFault),
		over("DowngradeGivenUpWith%vThenAgain", fault.Retryable(), downgradeAgain),
		over("DowngradeGivenUpWith%vThenUnlock", fault.Retryable(), downgradeUnlock),
		over("DowngradeGivenUpWith%vThenDeletedIsTold", fault.Retryable(), downgradeUnknownDeleted),
	)
}

func downgradeCutOff(w *Fixture) {
	for _, d := range fault.Directions() {
		a, b := w.Client("a"), w.Client("b")
		h := a.holds(writing)
		reader, writer := b.queueFor(w.soon(), reading), b.queueFor(w.soon(), writing)
		a.net.Cut(d)
		ctx, cancel := context.WithTimeout(w.soon(), w.h.TTL/20)
		err := rwlock.New(a.Session, name).Downgrade(ctx, h)
		deadline, _ := ctx.Deadline()
		returned := time.Now()
		cancel()

		require.ErrorIs(w.t, err, context.DeadlineExceeded)
		require.NotErrorIs(w.t, err, session.ErrLost)
		w.prompt(deadline, returned)
		require.NoError(w.t, h.Context().Err(), "the hold is not lost")
		a.net.Heal()
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
	x := tell(h)
	writer := b.queueFor(w.soon(), writing)
	a.net.Cut(fault.Both)
	err := rwlock.New(a.Session, name).Downgrade(w.soon(), h)
	returned := time.Now()

	require.ErrorIs(w.t, err, session.ErrLost)
	w.prompt(w.when(x), returned)
	w.endsBefore(h, x, writer)
	a.net.Heal()
	w.unlock(writer.Hold)
}

func downgradeFault(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(writing)
	reader, writer := b.queueFor(w.soon(), reading), a.queueFor(w.soon(), writing)
	a.net.Inject(fault.Change, f)
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
	p.net.Inject(fault.Change, f)
	p.net.OnRequest(func() { // the answer would come after this
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
	w.wait("the writer is behind a hold that lives", writer)
	a.downgrade(h) // whether the first one is done or not
	own.granted()
	other.granted()
	w.wait("readers hold", writer)

	assert.Equal(w.t, driver.Shared, h.Mode())
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

// downgradeUnknownDeleted: also a hold whose entry may have another name by now
// is told when that is deleted.
func downgradeUnknownDeleted(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(writing)
	x := tell(h)
	reader, writer := a.queueFor(w.soon(), reading), b.queueFor(w.soon(), writing)
	a.downgradeUnknown(h, f)
	reader.granted() // also of the same session; nobody has called again
	w.wait("readers hold", writer)
	w.svc.Delete(w.t, b.entries()[0].Ref)
	w.when(x)

	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	w.wait("a reader holds", writer)
	w.unlock(reader.Hold)
	w.unlock(writer.granted())
}

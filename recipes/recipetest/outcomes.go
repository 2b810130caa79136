package recipetest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// outcomes are the stories of requests whose outcome is unknown.
func outcomes() []story {
	return slices.Concat(
		over("EnqueueWith%vWedgesNobody", fault.Retryable(), unknownJoin),
		over("EnqueueWith%vIsGrantedInTheEnd", fault.Retryable(), patientJoin),
		over("ReleaseWith%vHandsOn", fault.Retryable(), unknownLeave),
		over("LookWith%vOnlyTakesLonger", fault.Retryable(), unknownLook),
	)
}

// unknownJoin has the caller give up while the outcome is unknown.
func unknownJoin(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	a.net.Inject(fault.Join, f)
	ctx, cancel := context.WithTimeout(w.soon(), 50*time.Millisecond)
	defer cancel()
	r := a.ask(ctx)
	if r.returned(); r.Err == nil {
		w.unlock(r.Hold)
	} else {
		require.ErrorIs(w.t, r.Err, context.DeadlineExceeded)
	}
	h := b.hold()
	w.unlock(h)
}

// patientJoin has the caller wait.
func patientJoin(w *Fixture, f fault.Kind) {
	a := w.Client("a")
	a.net.Inject(fault.Join, f)
	r := a.ask(w.soon())
	h := r.granted()
	w.eventually(1, "one entry for one request")
	w.unlock(h)
}

func unknownLeave(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	r := b.queue(w.soon())
	a.net.Inject(fault.Leave, f)
	UnlockInTrouble(w.t, h)
	w.unlock(r.granted())
	require.ErrorIs(w.t, h.Unlock(), session.ErrUnlocked)
	w.eventually(0, "nothing is left")
	assert.Empty(w.t, a.Rejoined())
}

func unknownLook(w *Fixture, f fault.Kind) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.hold()
	second := b.queue(w.soon())
	c.net.Inject(fault.Look, f)
	third := c.queue(w.soon())
	w.unlock(h)
	w.unlock(second.granted())

	assert.Equal(w.t, third.token, third.granted().Token(), "it kept its place")
	w.unlock(third.Hold)
}

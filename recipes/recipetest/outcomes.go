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
		over("EnqueueWith%vWedgesNobody", fault.Retryable(), func(w *Fixture, f fault.Kind) { unknownJoin(w, f, lock, name) }),
		over("EnqueueWith%vIsGrantedInTheEnd", fault.Retryable(), patientJoin),
		over("ReleaseWith%vHandsOn", fault.Retryable(), func(w *Fixture, f fault.Kind) { unknownLeave(w, f, lock, lock) }),
		over("LookWith%vOnlyTakesLonger", fault.Retryable(), unknownLook),
	)
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

// unknownJoin has the caller give up while the outcome is unknown.
func unknownJoin(w *Fixture, f fault.Kind, want locking, lines ...string) {
	a, b := w.Client("a"), w.Client("b")
	a.net.Inject(fault.Join, f)
	ctx, cancel := context.WithTimeout(w.soon(), 50*time.Millisecond)
	defer cancel()
	r := a.askFor(ctx, want)
	if r.returned(); r.Err == nil {
		w.unlock(r.Hold)
	} else {
		require.ErrorIs(w.t, r.Err, context.DeadlineExceeded)
	}
	w.unlock(b.holds(want)) // and both sessions live
	w.empty(lines...)
}

// unknownLeave has requests wait behind a hold whose release goes wrong.
func unknownLeave(w *Fixture, f fault.Kind, hold locking, behind ...locking) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(hold)
	var waits []*Request
	for _, want := range behind {
		waits = append(waits, b.queueFor(w.soon(), want))
	}
	a.net.Inject(fault.Leave, f)
	UnlockInTrouble(w.t, h)
	for _, r := range waits {
		w.unlock(r.granted())
	}
	require.ErrorIs(w.t, h.Unlock(), session.ErrUnlocked)
	w.empty(h.Names()...)
	assert.Empty(w.t, a.Rejoined())
}

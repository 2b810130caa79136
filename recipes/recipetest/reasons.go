package recipetest

import (
	"context"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// reasons are the stories of what an error says of the end of a hold.
func reasons() []story {
	return []story{
		{"TheCauseAfterUnlockIsReleased", causeReleased},
		{"ALossByTheDeadlineSaysSo", lossByDeadline},
		{"ALossWithTheSessionSaysExpired", lossByExpiry},
		{"DoTellsOneLossOnce", doTellsOnce},
	}
}

// oneLoss requires that an error tells one loss, on one line.
func (w *Fixture) oneLoss(err error) {
	w.t.Helper()
	require.ErrorIs(w.t, err, session.ErrLost)
	assert.NotContains(w.t, err.Error(), "\n")
	assert.LessOrEqual(w.t, strings.Count(err.Error(), "lost"), 1, "%s", err)
}

// says requires the reason of a loss.
func (w *Fixture) says(want session.Reason, err error) {
	w.t.Helper()
	w.oneLoss(err)
	var lost *session.LostError
	require.ErrorAs(w.t, err, &lost)
	assert.Equal(w.t, want, lost.Reason)
	assert.Contains(w.t, err.Error(), string(want))
}

// cause is why the context of a hold ended.
func cause(h *session.Hold) error { return context.Cause(h.Context()) }

func causeReleased(w *Fixture) {
	p := w.Client("p")
	h := p.hold()
	w.unlock(h)
	require.ErrorIs(w.t, cause(h), session.ErrReleased)
	require.NotErrorIs(w.t, cause(h), session.ErrUnlocked)
	assert.Equal(w.t, "lock released", cause(h).Error())
	require.ErrorIs(w.t, h.Unlock(), session.ErrUnlocked)
	ended := make(chan error, 1)
	require.NoError(w.t, mutex.New(p.Session, name).Do(w.soon(), func(ctx context.Context, _ *session.Hold) error {
		context.AfterFunc(ctx, func() { ended <- context.Cause(ctx) })
		return nil
	}))
	assert.Equal(w.t, "lock released", (<-ended).Error())
}

func lossByDeadline(w *Fixture) {
	p := w.mortal("p")
	h := p.hold()
	x := tell(h)
	p.net.Cut(fault.Both)
	w.when(x)
	w.says(session.ReasonDeadline, cause(h))
	w.says(session.ReasonDeadline, h.Unlock())
	p.net.Heal()
}

// lossByExpiry: the context ends with the first event, which may be that of the
// entry; the error of Unlock knows that the session is gone.
func lossByExpiry(w *Fixture) {
	p := w.Client("p")
	h := w.holdLong(p)
	x := tell(h)
	w.svc.Expire(w.t, h.SessionID())
	w.when(x)
	w.oneLoss(cause(h))
	assert.NotContains(w.t, cause(h).Error(), "delete")
	w.says(session.ReasonExpired, h.Unlock())
}

func doTellsOnce(w *Fixture) {
	p := w.Client("p")
	m := mutex.New(p.Session, name)
	soon := w.soon()
	err := m.Do(soon, func(ctx context.Context, h *session.Hold) error {
		p.queueFor(soon, passing(lock)) // has the holder watched at once
		w.svc.Expire(w.t, h.SessionID())
		<-ctx.Done()
		return context.Cause(ctx)
	})
	w.says(session.ReasonExpired, err)
}

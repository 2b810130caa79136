package recipetest

import (
	"errors"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
)

// runFails: an error of the work ends Run, which resigns first.
func runFails(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	ra := a.run("a")
	s := ra.leads()
	r := b.campaign(w.soon(), "b")
	why := errors.New("cannot open the database")
	s.leave <- why

	err := ra.returned()
	require.ErrorIs(w.t, err, why)
	require.NotErrorIs(w.t, err, session.ErrLost)
	w.unlock(r.granted())
	w.eventually(0, "nothing is left")
	assert.Empty(w.t, ra.stints)
}

// runLostFails: a lost leadership is no error of Run, and an error of the work that
// comes with it does not end Run.
func runLostFails(w *Fixture) {
	a := w.Client("a")
	ra := a.run("a")
	s := ra.leads()
	w.svc.Delete(w.t, s.hold.Refs()[0])
	<-s.ctx.Done()
	s.leave <- errors.New("refused by the table")

	again := ra.leads()
	assert.Greater(w.t, again.hold.Token(), s.hold.Token())
	ra.stop(nil)
	why := errors.New("cannot flush")
	again.leave <- why
	require.ErrorIs(w.t, ra.returned(), why, "ended with its context, and with an error")
}

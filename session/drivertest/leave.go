package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// leave: giving back deletes one entry, and tells the truth about it.
func leave() []story {
	return []story{
		{"LeaveDeletesAndASecondSaysGone", leaveTwice},
		{"LeaveSaysGoneAfterADeletionByHand", leaveDeleted},
		{"LeaveSaysGoneAfterTheSessionEnded", leaveExpired},
		{"LeaveNeverDeletesALaterEntry", leaveLater},
		{"LeaveProbesAnotherEntry", leaveProbes},
	}
}

// leaveErr leaves and returns the error.
func (o *owner) leaveErr(ref driver.Ref) error {
	_, err := o.Leave(o.w.soon(), driver.LeaveRequest{Ref: ref})
	return err
}

func leaveTwice(w *world) {
	o, other := w.open(), w.open()
	a, b := o.join(line).Entry, other.join(line).Entry
	left := o.leave(a.Ref)
	if left.Rev != 0 {
		assert.False(w.t, other.sees(a.Ref, left.Rev), "a look at the deletion's revision shows none")
	}
	require.ErrorIs(w.t, o.leaveErr(a.Ref), driver.ErrGone)
	require.ErrorIs(w.t, o.leaveErr(a.Ref), driver.ErrGone)
	assert.Equal(w.t, []driver.Ref{b.Ref}, refs(w.list(o.c, line)))
}

func leaveDeleted(w *world) {
	o := w.open()
	e := o.join(line).Entry
	w.svc.Delete(w.t, e.Ref)
	require.ErrorIs(w.t, o.leaveErr(e.Ref), driver.ErrGone)
}

func leaveExpired(w *world) {
	o := w.open()
	e := o.join(line).Entry
	w.svc.Expire(w.t, o.ID())
	w.count(0, line, "entries die with their session")
	require.Error(w.t, o.leaveErr(e.Ref), "never nil for an entry that was lost")
}

func leaveLater(w *world) {
	o := w.open()
	old := o.join(line).Entry
	o.leave(old.Ref)
	young := o.join(line).Entry // often with the same key
	require.ErrorIs(w.t, o.leaveErr(old.Ref), driver.ErrGone)
	w.count(1, line, "the later entry stays")

	mixed := driver.Ref{Line: line, Key: young.Key, Place: old.Place}
	require.ErrorIs(w.t, o.leaveErr(mixed), driver.ErrGone, "the key alone does not name an entry")
	w.count(1, line, "the later entry stays")
	o.leave(young.Ref)
	w.count(0, line, "key and place do")
}

func leaveProbes(w *world) {
	o := w.open()
	a, b, c := o.join(line).Entry, o.join(line).Entry, o.join(line).Entry
	left := o.leaveWith(driver.LeaveRequest{Ref: a.Ref, Probe: b.Ref})
	if left.Probed {
		assert.True(w.t, left.Alive, "it is alive")
	}
	w.svc.Delete(w.t, b.Ref)
	left = o.leaveWith(driver.LeaveRequest{Ref: c.Ref, Probe: b.Ref})
	assert.False(w.t, left.Alive, "it was deleted by hand")

	d := o.join(line).Entry
	left = o.leave(d.Ref)
	assert.False(w.t, left.Probed, "nothing was asked")
}

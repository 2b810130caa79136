package drivertest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// late: a request arrives after the client has given it up.
func late() []story {
	return []story{
		{"ALateJoinAfterSettleMakesNoEntry", lateSettled},
		{"ALateJoinAfterItsRetryMakesNoSecondEntry", lateRetried},
		{"ALateJoinAfterItsRetryWasLeftMakesNoEntry", lateLeft},
		{"ALateJoinAfterCloseMakesNoEntry", lateClosed},
		{"ALateLeaveDoesNotDeleteALaterEntry", lateLeave},
	}
}

// canceledLate is a join whose only request is kept back while its context ends.
func canceledLate(w *world, o *owner, names ...string) error {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.soon())
	defer stop()
	o.c.Inject(fault.Join, fault.LateRequest)
	o.c.OnRequest(stop)
	var err error
	if len(names) == 1 {
		_, err = o.Join(ctx, driver.JoinRequest{Line: names[0]})
	} else {
		_, err = o.JoinAll(ctx, requests(names...))
	}
	o.c.OnRequest(nil)
	var p *driver.PendingError
	require.ErrorAs(w.t, err, &p, "the join may still come to exist")
	return err
}

func lateSettled(w *world) {
	o := w.open()
	err := canceledLate(w, o, line)
	w.settle(err)
	o.c.Deliver()
	w.undone(0, line, "Settle made sure that nothing stays")

	e := o.join(line).Entry
	o.leave(e.Ref)
	w.count(0, line, "the line works as before")
}

func lateRetried(w *world) {
	o := w.open()
	o.c.Inject(fault.Join, fault.LateRequest)
	j := o.join(line)
	o.c.Deliver()
	w.undone(1, line, "one entry for one join")
	assert.Equal(w.t, []driver.Ref{j.Entry.Ref}, refs(w.list(o.c, line)))
}

// lateLeft is the orphan that lives as long as its session: the first copy of a
// join arrives when the second has been answered and left.
func lateLeft(w *world) {
	o := w.open()
	o.c.Inject(fault.Join, fault.LateRequest)
	o.leave(o.join(line).Entry.Ref)
	o.c.Deliver()
	w.undone(0, line, "a join that was answered and left does not come again")
}

func lateClosed(w *world) {
	o := w.open()
	err := canceledLate(w, o, line)
	require.NoError(w.t, o.end())
	o.c.Deliver()
	w.count(0, line, "nothing joins a line with a closed session")
	w.settle(err)
	w.count(0, line, "settled")
}

func lateLeave(w *world) {
	o := w.open()
	e := o.join(line).Entry
	o.c.Inject(fault.Leave, fault.LateRequest)
	o.leave(e.Ref)
	again := o.join(line).Entry // often with the same key
	o.c.Deliver()
	assert.Equal(w.t, []driver.Ref{again.Ref}, refs(w.list(o.c, line)))
}

package drivertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// cancel: a context ends, and the call returns at once and leaves nothing.
func cancel() []testCase {
	return slices.Concat(
		[]testCase{
			{"AnEndedContextLeavesNothing", cancelBefore},
			{"AContextThatEndsAfterwardsChangesNothing", cancelAfter},
			{"CancelAtEachRequestOfAJoinLeavesNothing", func(w *fixture) { cancelEach(w, nil) }},
		},
		over("CancelAtEachRequestOfAJoinWith%vLeavesNothing", fault.Retryable(), func(w *fixture, f fault.Kind) { cancelEach(w, &f) }),
		over("CallsReturnWhileCut%v", fault.Directions(), cancelWhileCut),
		over("OpenAndCloseReturnWhileCut%v", fault.Directions(), openCloseWhileCut),
		over("AJoinCanceledWhileCut%vIsSettledAfterIt", fault.Directions(), joinWhileCut),
		[]testCase{
			{"AnUnknownOutcomeIsCalledUnknown", unknownIsPending},
			{"SettleIsIdempotentAndOutlivesTheSession", settleOver},
		},
	)
}

func cancelBefore(w *fixture) {
	o := w.open()
	e := o.join("kept").Entry
	ctx, stop := context.WithCancel(w.ctx)
	stop()
	b := o.c.Backend()
	calls := map[string]func() error{
		"Join": func() error {
			_, err := o.Join(ctx, driver.JoinRequest{Line: line})
			w.settle(err)
			return err
		},
		"Leave": func() error { _, err := o.Leave(ctx, driver.LeaveRequest{Ref: e.Ref}); return err },
		"Look":  func() error { _, err := o.Look(ctx, driver.LookRequest{Line: line, Upto: 1}); return err },
		"List":  func() error { _, err := b.List(ctx, line, 0); return err },
		"Names": func() error { _, err := b.Names(ctx, ""); return err },
		"Evict": func() error { return b.Evict(ctx, e) },
		"Open":  func() error { _, err := w.tryOpen(ctx, o.c); return err },
	}
	for name, call := range calls {
		w.prompt(o.c, name, ctx.Done(), func() {
			assert.Error(w.t, call(), "%s with an ended context", name)
		})
	}
	w.count(0, line, "nothing was joined")
}

func cancelAfter(w *fixture) {
	o := w.open()
	ctx, stop := context.WithCancel(w.ctx)
	j, err := o.Join(ctx, driver.JoinRequest{Line: line})
	require.NoError(w.t, err)
	stop()
	time.Sleep(w.short / 4) // for whatever might follow the context's end
	assert.True(w.t, o.sees(j.Entry.Ref, 0), "an entry does not depend on the context of its join")
}

// cancelEach ends the context at the first request of a join, then of another
// at the second, and so on until a join makes fewer requests.
func cancelEach(w *fixture, f *fault.Kind) {
	holder, o := w.open(), w.open()
	holder.join(line)
	for n := 1; ; n++ {
		require.Less(w.t, n, 20, "a join does not make so many requests")
		ctx, stop := context.WithTimeout(w.ctx, w.patience())
		count := 0
		o.c.OnRequest(func() {
			if count++; count == n {
				stop()
			}
		})
		if f != nil {
			o.c.Inject(fault.Join, *f)
		}
		var j driver.Joined
		var err error
		w.prompt(o.c, fmt.Sprintf("Join canceled at request %d", n), ctx.Done(), func() {
			j, err = o.Join(ctx, driver.JoinRequest{Line: line})
		})
		o.c.OnRequest(nil)
		stop()
		w.settle(err)
		if err == nil {
			o.leave(j.Entry.Ref)
		}
		require.Equal(w.t, 1, w.svc.Count(w.t, line), "canceled at request %d: only the holder is left (%v)", n, err)
		if count < n {
			return
		}
	}
}

// cancelWhileCut ends the context of each call while the network is cut.
func cancelWhileCut(w *fixture, d fault.Direction) {
	o := w.open()
	e := o.join("kept").Entry
	b := o.c.Backend()
	o.c.Cut(d)
	var pending error
	calls := []struct {
		name string
		call func(ctx context.Context) error
	}{
		{"Join", func(ctx context.Context) error {
			_, pending = o.Join(ctx, driver.JoinRequest{Line: line})
			return pending
		}},
		{"Look", func(ctx context.Context) error {
			_, err := o.Look(ctx, driver.LookRequest{Line: line, Upto: e.Place})
			return err
		}},
		{"List", func(ctx context.Context) error { _, err := b.List(ctx, line, 0); return err }},
		{"Names", func(ctx context.Context) error { _, err := b.Names(ctx, ""); return err }},
		{"Leave", func(ctx context.Context) error {
			_, err := o.Leave(ctx, driver.LeaveRequest{Ref: e.Ref})
			return err
		}},
	}
	for _, c := range calls {
		ctx := w.within(w.h.TTL / 50)
		w.prompt(o.c, c.name, ctx.Done(), func() {
			assert.Error(w.t, c.call(ctx), "%s while cut off: %s", c.name, d)
		})
	}
	o.c.Heal()
	w.settle(pending)
	w.count(0, line, "the join is settled")
	o.leave(e.Ref) // whatever became of the first try
	w.count(0, "kept", "the leave is done")
}

func openCloseWhileCut(w *fixture, d fault.Direction) {
	w.expires()
	o := w.open()
	o.join(line)
	c := w.client()
	c.Cut(d)
	ctx := w.within(w.h.TTL / 50)
	w.prompt(c, "Open", ctx.Done(), func() {
		_, err := w.tryOpen(ctx, c)
		assert.Error(w.t, err, "Open while cut off: %s", d)
	})
	o.c.Cut(d)
	ctx = w.within(w.h.TTL / 50)
	w.prompt(o.c, "Close", ctx.Done(), func() {
		assert.Error(w.t, o.close(ctx), "Close while cut off: %s", d)
	})
	w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "entries go when the TTL has passed, at the latest")
}

func joinWhileCut(w *fixture, d fault.Direction) {
	o := w.open()
	o.c.Cut(d)
	_, err := o.Join(w.within(w.h.TTL/20), driver.JoinRequest{Line: line})
	require.Error(w.t, err)
	o.c.Heal()
	w.settle(err)
	w.count(0, line, "settled")
	o.join(line)
	w.count(1, line, "and the line can be joined")
}

// unknownIsPending: the entry was made and the reply was lost, so whoever says
// "not done" is guessing.
func unknownIsPending(w *fixture) {
	o := w.open()
	o.c.Cut(fault.Replies)
	_, err := o.Join(w.within(w.h.TTL/20), driver.JoinRequest{Line: line})
	w.count(1, line, "the service has done it")
	var p *driver.PendingError
	require.ErrorAs(w.t, err, &p)

	short := w.within(w.h.TTL / 50)
	w.prompt(o.c, "Settle", short.Done(), func() {
		assert.Error(w.t, p.Settle(short), "not certain while the replies are cut")
	})
	o.c.Heal()
	w.settle(err)
	w.count(0, line, "settled")
}

func settleOver(w *fixture) {
	for _, closing := range []bool{true, false} {
		o := w.open()
		o.c.Cut(fault.Replies)
		_, err := o.Join(w.within(w.h.TTL/20), driver.JoinRequest{Line: line})
		require.Error(w.t, err)
		o.c.Heal()
		if closing {
			require.NoError(w.t, o.end())
		} else {
			w.svc.Expire(w.t, o.ID())
		}
		w.settle(err)
		w.settle(err)
		w.count(0, line, "settled")
	}
}

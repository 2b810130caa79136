package drivertest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// leaks: nothing runs on in the process when a session is over.
func leaks() []story {
	return []story{
		{"CloseLeavesNoGoroutine", func(w *world) {
			noLeak(w, func(o *owner) { require.NoError(w.t, o.end()) })
		}},
		{"AbandonLeavesNoGoroutine", func(w *world) { noLeak(w, func(o *owner) { o.Abandon() }) }},
		{"ALostSessionThatIsClosedLeavesNoGoroutine", func(w *world) {
			noLeak(w, func(o *owner) {
				w.svc.Expire(w.t, o.ID())
				w.eventually(func() bool { return o.losses() > 0 }, "Gone")
				require.NoError(w.t, o.end())
			})
		}},
		{"CallsGivenUpWhileCutLeaveNoGoroutine", func(w *world) { noLeak(w, giveUpWhileCut) }},
		{"CloseWhileCutLeavesNoGoroutine", func(w *world) { noLeak(w, closeWhileCut) }},
	}
}

// noLeak opens a session that watches and waits, ends it in some way, and looks
// for what runs on. Ends that leave the session at the service are made up for.
func noLeak(w *world, end func(o *owner)) {
	ahead := w.svc.PutForeign(w.t, line, true) // by nobody whose goroutines could be counted
	c := w.client()
	warm := w.openOn(c) // what the backend keeps for its own life is there
	warm.join("warm")
	require.NoError(w.t, warm.end())
	mine := slices.Concat(w.h.Leaks, []goleak.Option{goleak.IgnoreCurrent()})

	o := w.openOn(c)
	own := o.join(line).Entry
	o.armed("ahead", driver.WatchRequest{Ref: ahead})
	_, stop := o.armed("own", driver.WatchRequest{Ref: own.Ref, Own: true})
	rev := o.look(driver.LookRequest{Line: line, Upto: own.Place}).Rev
	o.armed("since", driver.WatchRequest{Ref: ahead, Since: rev})
	stop()
	end(o)

	assert.NoError(w.t, goleak.Find(mine...))
}

func giveUpWhileCut(o *owner) {
	w := o.w
	o.c.Cut(fault.Both)
	ctx := w.within(w.h.TTL / 20)
	_, err := o.Join(ctx, driver.JoinRequest{Line: line})
	assert.Error(w.t, err)
	_, err = o.Look(ctx, driver.LookRequest{Line: line, Upto: 1})
	assert.Error(w.t, err)
	_, err = o.c.Backend().List(ctx, line, 0)
	assert.Error(w.t, err)
	time.Sleep(w.h.TTL / 20)
	o.c.Heal()
	w.settle(err)
	require.NoError(w.t, o.end())
}

func closeWhileCut(o *owner) {
	w := o.w
	o.c.Cut(fault.Both)
	require.Error(w.t, o.close(w.within(w.h.TTL/20)))
	o.c.Heal()
}

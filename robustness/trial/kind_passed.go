package trial

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/fault"
)

// The faults of this file are aimed at a session that passes its lock on to its own next request: the
// holder releases during the fault, so that no answer to the release comes, and the head waiter holds
// nevertheless. What is judged then is the hold of the head waiter, as that of a holder in other kinds.

// cutPassed cuts the session off before the release. The last waiter holds when the session has expired,
// and the context of the head waiter must have ended before.
func cutPassed(d fault.Direction) func(context.Context, *trial) {
	return func(ctx context.Context, tr *trial) {
		h, p := tr.holder(), tr.head()
		p.noteFault(tr.kind.name)
		tr.inject(h, func() { h.c.Cut(d) })
		if !tr.passOn(ctx) {
			tr.miss("the lock was not passed on")
			tr.heal()
			grantRest(ctx, tr)
			return
		}
		entry := p.attempt().Entry
		gone := tr.watchEntry(ctx, entry, 3*TTL)
		await(ctx, tr.last().got, 3*TTL)
		until(ctx, noticeTime, p.over)
		tr.heal()
		until(ctx, TTL, func() bool { return p.c.Traffic().Waiting == 0 })
		tr.gone = <-gone
		if tr.gone != 0 {
			tr.figure(FaultToGone, time.Duration(tr.gone-tr.faultAt))
			tr.awaitGrant(ctx, tr.last(), tr.gone)
		}
		p.release()
		await(ctx, p.done, releaseTimeout)
		tr.releaseRest(ctx)
	}
}

// passOn has the holder release, and reports whether the head waiter holds soon. It does not if the watch
// on its entry was not armed before the fault: then only an answer grants.
func (tr *trial) passOn(ctx context.Context) bool {
	tr.releaseHolder()
	return tr.lock != Ours || await(ctx, tr.head().got, TTL/4)
}

// releaseRest has the last waiter release, when it holds.
func (tr *trial) releaseRest(ctx context.Context) {
	p := tr.last()
	await(ctx, p.got, 3*TTL)
	p.release()
	await(ctx, p.done, releaseTimeout)
}

package trial

import (
	"context"

	"github.com/fairlock/fairlock/fault"
)

// The faults of this file are aimed at a session that passes its lock on to its own next request: the
// holder releases during the fault, so that no answer to the release comes, and the head waiter holds
// nevertheless. What is judged then is the hold of the head waiter, as that of a holder in other kinds.

// cutPassed cuts the session off before the release. The last waiter holds when the session has expired,
// and the context of the head waiter must have ended before.
func cutPassed(d fault.Direction) func(context.Context, *trial) {
	return func(ctx context.Context, tr *trial) {
		h := tr.holder()
		tr.head().noteFault(tr.kind.name)
		tr.inject(h, func() { h.c.Cut(d) })
		tr.releaseHolder()
		if tr.shares() && !await(ctx, tr.head().got, TTL/4) {
			tr.miss("the lock was not passed on") // the watch was not armed before the fault: only an answer grants
			tr.heal()
		} else {
			tr.outlast(ctx, tr.watchEntry(ctx, tr.judged().attempt().Entry, 3*TTL))
		}
		grantRest(ctx, tr)
	}
}

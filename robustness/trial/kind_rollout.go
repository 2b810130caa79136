package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/robustness/history"
)

// The faults of this file are aimed at a roll-out of an election. The holder leads, and the head waiter is
// next, both of an old generation. Then the last one campaigns, of a newer generation: the other waiter
// steps behind it, and the leader hands over to it.

const (
	newerOne = 2                     // the index of the newer candidate in the set-up
	stepTime = 10 * time.Millisecond // within which the older one steps behind it, on an idle machine
	workTime = 50 * time.Millisecond // that a leader's work takes to end when the leader hands over

	// againTime is for how long a candidate leads that has led before: long enough to hand over again.
	againTime = 2 * settle
)

// generation returns the generation of participant i; 0 if it is no candidate.
func (k *kind) generation(i int) int64 {
	switch {
	case !k.rollout:
		return 0
	case i == newerOne:
		return 2
	}
	return 1
}

// rollOut begins a roll-out, and has the script go on at a drawn moment of it: while the older candidate
// steps, while the newer one settles, or while the leader hands over. For the script the newer one is the
// head waiter.
func rollOut(script func(context.Context, *trial)) func(context.Context, *trial) {
	return func(ctx context.Context, tr *trial) {
		newer := tr.participants[newerOne]
		tr.participants[1], tr.participants[2] = newer, tr.head()
		newer.keep = -1
		newer.start()
		moment := tr.n % 3
		if moment == 2 {
			until(ctx, timeout, func() bool {
				a := tr.leader(ctx)
				return a.HandsOver != 0 || overAt(a) != 0
			})
		}
		within := [...]time.Duration{stepTime, settle, workTime + stepTime}[moment]
		await(ctx, nil, time.Duration(tr.rng.Int64N(int64(within))))
		if overAt(tr.leader(ctx)) != 0 {
			tr.miss("the leader lost the leadership before the fault")
		}
		script(ctx, tr)
	}
}

// leader returns the record of the first leadership.
func (tr *trial) leader(ctx context.Context) history.Attempt {
	if tr.process == nil {
		return tr.holder().attempt()
	}
	a, err := tr.process.Report(ctx)
	if err != nil {
		tr.miss("%v", err)
	}
	return a
}

// cutNewer cuts the newer candidate off. The leader hands over to it nevertheless, and the next one of the
// old generation leads when its session has expired. The cut is healed when the first leader leads again,
// which must not hand over to the same generation again.
func cutNewer(ctx context.Context, tr *trial) {
	newer := tr.head()
	tr.inject(newer, func() { newer.c.Cut(fault.Both) })
	tr.checkHeldBack(ctx, newer)
	handsOver := until(ctx, TTL, func() bool { return tr.holder().attempt().HandsOver != 0 })
	since := Now()
	if !handsOver { // it was cut off before it had joined
		tr.releaseHolder()
	}
	tr.awaitOldGeneration(ctx, since)
	if handsOver {
		await(ctx, tr.holder().again, TTL)
	}
	tr.heal()
	await(ctx, nil, againTime)
	handOver(ctx, tr)
}

// awaitOldGeneration waits until one of the old generation leads: the older candidate, or the first leader
// again. It is a violation of L1 if that takes longer than maxWait from since on.
func (tr *trial) awaitOldGeneration(ctx context.Context, since history.Instant) {
	leads := make(chan struct{})
	go func() { // ends with the request of the older candidate
		defer close(leads)
		select {
		case <-tr.last().got:
		case <-tr.holder().again:
		}
	}()
	tr.meter.await(ctx, leads, since, tr.maxWait)
	if isClosed(leads) {
		tr.figure(Progress, time.Duration(Now()-since))
	} else {
		tr.violated("L1", fmt.Sprintf("no candidate of the old generation led within %s", tr.maxWait()))
	}
}

// judgeHandsOver judges that no client hands over to the newer generation more than once: a version that
// fails would get the leadership again and again.
func (r *Result) judgeHandsOver(attempts []history.Attempt) {
	before := map[int]bool{}
	for _, a := range attempts {
		if a.HandsOver != 0 && before[a.Client] {
			r.violated("L1", "a client handed over twice to the same generation")
		}
		before[a.Client] = before[a.Client] || a.HandsOver != 0
	}
}

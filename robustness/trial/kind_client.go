package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/robustness/history"
)

// cutHolder cuts a holder off. It heals the cut when the next waiter holds, or long after
// the holder should have noticed. If only replies are cut, the session may live on, because
// its renewals still reach the service.
func cutHolder(d fault.Direction) func(context.Context, *trial) {
	return func(ctx context.Context, tr *trial) {
		h := tr.holder()
		entry := h.attempt().Entry
		gone := tr.watchEntry(ctx, entry, 3*TTL)
		tr.inject(h, func() { h.c.Cut(d) })
		tr.checkHeldBack(ctx, h)
		tr.outlast(ctx, gone)
		handOver(ctx, tr)
	}
}

// outlast waits until the next one holds after a hold that is cut off, or until that is long overdue, and
// heals the cut. gone gets when the entry of the hold left the queue.
func (tr *trial) outlast(ctx context.Context, gone <-chan history.Instant) {
	p, next := tr.judged(), tr.next()
	await(ctx, next.got, 3*TTL)
	until(ctx, noticeTime, p.over)
	tr.heal()
	// The bytes that were held back reach the holder now, and must not make it report
	// "held" again.
	until(ctx, TTL, func() bool { return p.c.Traffic().Waiting == 0 })
	until(ctx, promptly, func() bool { return p.attempt().Lied != 0 })
	tr.gone = <-gone
	if tr.gone != 0 {
		tr.figure(FaultToGone, time.Duration(tr.gone-tr.faultAt))
		tr.awaitGrant(ctx, next, tr.gone)
	}
}

// watchEntry watches an entry in the background, for at most d. It returns a channel that
// receives when the entry left the queue, 0 if it did not.
func (tr *trial) watchEntry(ctx context.Context, entry string, d time.Duration) <-chan history.Instant {
	gone := make(chan history.Instant, 1)
	go func() { gone <- tr.awaitLeft(ctx, entry, d) }() // ends with d
	return gone
}

// checkHeldBack checks that the proxies of a participant's client hold bytes back.
func (tr *trial) checkHeldBack(ctx context.Context, p *participant) {
	if !heldBack(ctx, p.c.Traffic) {
		tr.miss("nothing waits in the proxies of client %d", p.id)
	}
}

// heldBackTime is how long bytes have to stay in a proxy to count as held back, and not as
// in transit.
const heldBackTime = 25 * Poll

// heldBack waits until bytes have stayed in proxies for heldBackTime, and reports whether
// they have.
func heldBack(ctx context.Context, traffic func() tcpproxy.Traffic) bool {
	var since history.Instant
	return until(ctx, effectTimeout, func() bool {
		now := Now()
		if traffic().Waiting == 0 {
			since = 0
		} else if since == 0 {
			since = now
		}
		return since != 0 && time.Duration(now-since) >= heldBackTime
	})
}

// stopHolder stops the holder's process until the next waiter holds.
func stopHolder(ctx context.Context, tr *trial) {
	tr.faultAt = Now()
	if err := tr.process.Pause(); err != nil {
		tr.miss("%v", err)
		return
	}
	tr.awaitGrant(ctx, tr.head(), tr.faultAt)
	if err := tr.process.Resume(); err != nil {
		tr.miss("%v", err)
		return
	}
	tr.access.Write() // as if the process had checked its hold and been stopped before this write
	tr.awaitNotice(ctx, tr.process.Report)
	grantRest(ctx, tr)
}

// awaitNotice waits until a holder whose process was stopped has reported, and was notified,
// that its hold is over (L2).
func (tr *trial) awaitNotice(ctx context.Context, report func(context.Context) (history.Attempt, error)) {
	var failed error
	err := untilSeen(ctx, effectTimeout, func(context.Context) (bool, error) {
		within, cancel := context.WithTimeout(ctx, timeout) // a report that is cut short ends the process
		defer cancel()
		var a history.Attempt
		a, failed = report(within)
		return failed == nil && a.Over != 0 && a.Told != 0, failed
	})
	switch {
	case failed != nil || ctx.Err() != nil:
		tr.miss("the process did not report that its hold is over: %v", errors.Join(failed, ctx.Err()))
	case err != nil:
		tr.violated("L2", fmt.Sprintf("client 0 was not notified within %s after its process had resumed", effectTimeout))
	}
}

// grantRest waits until each waiter has held and released, one after another, once the
// holder has released or lost its hold.
func grantRest(ctx context.Context, tr *trial) {
	if tr.releasedAt == 0 {
		tr.releasedAt = Now()
	}
	since := tr.releasedAt
	for _, p := range tr.participants[1:] {
		tr.awaitGrant(ctx, p, since)
		if p.keep < 0 {
			p.release()
		}
		await(ctx, p.done, max(p.keep, 0)+releaseTimeout)
		since = max(since, Now())
	}
}

// cutWaiter cuts the head waiter off, and ends its context. The waiters behind it wait
// until its session expires, and no longer.
func cutWaiter(ctx context.Context, tr *trial) {
	p := tr.head()
	tr.inject(p, func() { p.c.Cut(fault.Both) })
	tr.checkHeldBack(ctx, p)
	if p.returned() {
		tr.miss("the waiter returned before its context ended")
	}
	p.end()
	tr.releaseHolder()
	await(ctx, p.got, 2*TTL)
	for _, q := range tr.participants[2:] {
		tr.awaitGrant(ctx, q, tr.releasedAt)
	}
	tr.heal()
}

// endHolderSession ends the holder's session as an operator would.
func endHolderSession(ctx context.Context, tr *trial) {
	h := tr.holder()
	tr.endEntry(ctx, h, 0, func(string) error { return tr.svc.EndSession(ctx, h.c.Session()) })
	tr.afterEndedHold(ctx)
}

// deleteHolderEntry deletes the holder's entry.
func deleteHolderEntry(ctx context.Context, tr *trial) {
	tr.endEntry(ctx, tr.holder(), 0, func(entry string) error { return tr.svc.Delete(ctx, entry) })
	tr.afterEndedHold(ctx)
}

// afterEndedHold is the rest of a script in which another client ended the holder's hold. If
// that failed, the head waiter waits for the release.
func (tr *trial) afterEndedHold(ctx context.Context) {
	if tr.Missed == "" {
		tr.awaitGrant(ctx, tr.head(), tr.faultAt)
		until(ctx, TTL, tr.holder().over)
	}
	handOver(ctx, tr)
}

// endWaiterSession ends the head waiter's session.
func endWaiterSession(ctx context.Context, tr *trial) {
	p := tr.head()
	tr.endEntry(ctx, p, 1, func(string) error { return tr.svc.EndSession(ctx, p.c.Session()) })
	handOver(ctx, tr)
}

// deleteWaiterEntry deletes the head waiter's entry.
func deleteWaiterEntry(ctx context.Context, tr *trial) {
	tr.endEntry(ctx, tr.head(), 1, func(entry string) error { return tr.svc.Delete(ctx, entry) })
	handOver(ctx, tr)
}

// endEntry ends p's entry, which has index i in the queue, by calling f, and checks that
// the entry has left the queue.
func (tr *trial) endEntry(ctx context.Context, p *participant, i int, f func(entry string) error) {
	before, err := tr.svc.Entries(ctx, tr.lock, tr.queue.Name)
	if err != nil || len(before) <= i {
		tr.miss("there was no entry number %d: %v", i, err)
		return
	}
	tr.inject(p, func() { err = f(before[i]) })
	if err == nil {
		err = tr.leavesAtOnce(ctx, i, before)
	}
	if err != nil {
		tr.miss("entry %q: %v", before[i], err)
	}
}

// leavesAtOnce checks that the entry before[i] leaves the queue at once, after the request that
// ended it has returned. An entry that leaves later has another reason: its session expired, as
// happens on a busy machine. A read that began in time counts, however long it takes.
func (tr *trial) leavesAtOnce(ctx context.Context, i int, before []string) error {
	since, stays := Now(), false
	err := untilSeen(ctx, effectTimeout, func(ctx context.Context) (bool, error) {
		began := Now()
		entries, err := tr.svc.Entries(ctx, tr.lock, tr.queue.Name)
		if err != nil {
			return false, err
		}
		// A client that joins again may get the same name, at the end of the queue. If the
		// entries behind it have left meanwhile, that is its old index.
		there := len(entries) >= len(before) && entries[i] == before[i]
		stays = there && time.Duration(began-since) > promptly+tr.meter.stalls(since, began)
		return stays || !there, nil
	})
	if stays {
		return errors.New("it was ended, and still exists")
	}
	return err
}

// bearableDelay is how late replies may be so that a session can be opened and kept. The
// first renewal has to be answered within the trust window, which begins when the request for
// the lease is sent. The replies to both requests are late, so with a TTL of 2 s and a margin
// of 1 s each may be at most half a second late. On ZooKeeper, an attempt at one server has half
// a TTL, and with TLS three replies have to come in that time.
const bearableDelay = 250 * time.Millisecond

// delayReplies makes all replies to all clients late. With a delay above bearableDelay,
// sessions are lost again and again. Until the delay ends, the only promise is then that
// holders are notified.
func delayReplies(ctx context.Context, tr *trial) {
	d := 100*time.Millisecond + time.Duration(tr.rng.Int64N(int64(600*time.Millisecond)))
	for _, p := range tr.participants {
		tr.inject(p, func() { p.c.Delay(d) })
	}
	for _, p := range tr.participants {
		tr.checkHeldBack(ctx, p)
		if !tr.Hit() {
			break
		}
	}
	tr.releaseHolder()
	if d > bearableDelay {
		await(ctx, tr.last().done, 2*TTL)
		tr.heal()
		tr.endedAt = Now()
		tr.releasedAt = tr.endedAt
	}
	grantRest(ctx, tr)
}

// losesReply returns the kind that loses the reply to a kind of request. It is aimed at the
// third participant, which waits behind a holder and a waiter, and later holds before a
// fourth participant. So others are in the queue whenever it sends a request. In every
// other trial its context ends when the reply is lost, if that is before it holds.
func losesReply(request string) *kind {
	return &kind{
		name: lostPrefix + request, four: true,
		before: func(ctx context.Context, tr *trial) error { return tr.requestAndLose(ctx, request) },
		run: func(ctx context.Context, tr *trial) {
			handOver(ctx, tr)
			await(ctx, tr.last().done, timeout)
			if !tr.lost() {
				tr.miss("no reply to %q was lost", request)
			}
		},
	}
}

// requestAndLose has the third and the fourth participant request the lock.
func (tr *trial) requestAndLose(ctx context.Context, request string) error {
	p := tr.last()
	p.keep = TTL / 2 // so that it renews
	tr.inject(p, func() { tr.lost = p.c.Lose(request) })
	p.start()
	err := untilSeen(ctx, timeout, func(ctx context.Context) (bool, error) {
		entries, err := tr.svc.Entries(ctx, tr.lock, tr.queue.Name)
		return tr.lost() || p.returned() || len(entries) > 2 || tr.checkReady() != nil, err
	})
	err = errors.Join(err, tr.checkReady())
	if err != nil {
		return err
	}
	// By then it has sent what it sends when it begins to wait.
	until(ctx, TTL/4, tr.lost)
	if tr.lost() && tr.n%2 == 1 {
		p.end()
		await(ctx, p.got, TTL)
	}
	tr.participants[3].start()
	return tr.awaitAllEntries(ctx)
}

// awaitAllEntries waits until the entries of all requests that have not returned are in the
// queue. A request must not stay without one after its reply was lost: it would never be
// granted (L1).
func (tr *trial) awaitAllEntries(ctx context.Context) error {
	last, seen := tr.last(), -1
	err := untilSeen(ctx, timeout, func(ctx context.Context) (bool, error) {
		entries, err := tr.svc.Entries(ctx, tr.lock, tr.queue.Name)
		if err != nil {
			return false, err
		}
		want := 4
		if last.returned() {
			want = 3
		}
		seen = len(entries)
		if tr.checkReady() == nil && seen < want {
			err = fmt.Errorf("%d entries in the queue, want %d", seen, want)
		}
		return err == nil, err
	})
	if err != nil && ctx.Err() == nil && seen >= 0 && tr.lost() && tr.checkReady() == nil {
		tr.violated("L1", fmt.Sprintf("%s after a reply was lost, a request has no entry: %v", timeout, err))
	}
	return err
}

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

// cutHolder cuts a holder off, and heals it when the next one holds, or when it
// should have noticed for long. If only replies are cut, a session may live on
// for as long as its owner goes on renewing it unheard.
func cutHolder(d fault.Direction) func(context.Context, *stage) {
	return func(ctx context.Context, st *stage) {
		h := st.holder()
		entry := h.attempt().Entry
		gone := st.watchesFor(ctx, entry, 3*TTL)
		st.strike(h, func() { h.c.Cut(d) })
		st.meets(ctx, h)
		await(ctx, st.head().got, 3*TTL)
		until(ctx, aftermath, h.over)
		st.heal()
		// What was held back reaches it now, and must not revive it.
		until(ctx, TTL, func() bool { return h.c.Traffic().Waiting == 0 })
		until(ctx, promptly, func() bool { return h.attempt().Lied != 0 })
		if at := <-gone; at != 0 {
			st.figure(StruckToGone, time.Duration(at-st.struck))
		}
		passOn(ctx, st)
	}
}

// watchesFor notes in the background when an entry leaves the line; 0 if it has
// not in that time.
func (st *stage) watchesFor(ctx context.Context, entry string, d time.Duration) <-chan history.Instant {
	gone := make(chan history.Instant, 1)
	go func() { gone <- st.leaves(ctx, entry, d) }() // ends with d
	return gone
}

// meets sees that a player's connections hold something back.
func (st *stage) meets(ctx context.Context, p *player) {
	if !steadily(ctx, p.c.Traffic) {
		st.miss("nothing waits in the proxies of client %d", p.id)
	}
}

// steady is how long bytes have to stay in a proxy to be held back, and not only
// on their way.
const steady = 25 * Poll

// steadily waits until bytes stay in proxies.
func steadily(ctx context.Context, traffic func() tcpproxy.Traffic) bool {
	var since history.Instant
	return until(ctx, sight, func() bool {
		now := Now()
		if traffic().Waiting == 0 {
			since = 0
		} else if since == 0 {
			since = now
		}
		return since != 0 && time.Duration(now-since) >= steady
	})
}

// stopHolder stops the process that holds until the next one does, and for a
// little longer.
func stopHolder(ctx context.Context, st *stage) {
	st.struck = Now()
	if err := st.process.Pause(); err != nil {
		st.miss("%v", err)
		return
	}
	st.granted(ctx, st.head(), st.struck)
	if err := st.process.Resume(); err != nil {
		st.miss("%v", err)
		return
	}
	st.visit.write() // it had looked whether it holds, and was stopped
	err := untilSeen(ctx, aftermath, func(ctx context.Context) (bool, error) {
		a, err := st.process.Report(ctx)
		return a.Over != 0, err
	})
	if err != nil && ctx.Err() != nil {
		st.miss("%v", err)
	}
	goOn(ctx, st)
}

// goOn is what follows when the holder is out of the way.
func goOn(ctx context.Context, st *stage) {
	if st.freed == 0 {
		st.freed = Now()
	}
	since := st.freed
	for _, p := range st.players[1:] {
		st.granted(ctx, p, since)
		if p.keep < 0 {
			p.let()
		}
		await(ctx, p.gone, max(p.keep, 0)+givingBack)
		since = max(since, Now())
	}
}

// cutWaiter cuts the head waiter off, and ends its context. Those behind it wait
// for its session to expire, and not for longer.
func cutWaiter(ctx context.Context, st *stage) {
	p := st.head()
	st.strike(p, func() { p.c.Cut(fault.Both) })
	st.meets(ctx, p)
	if p.returned() {
		st.miss("the waiter returned before its context ended")
	}
	p.end()
	st.release()
	await(ctx, p.got, 2*TTL)
	for _, q := range st.players[2:] {
		st.granted(ctx, q, st.freed)
	}
	st.heal()
}

// endHolderSession ends the holder's session as an operator would.
func endHolderSession(ctx context.Context, st *stage) {
	h := st.holder()
	st.ends(ctx, h, 0, func(string) error { return st.svc.EndSession(ctx, h.c.Session()) })
	st.fouled(ctx)
}

// deleteHolderEntry deletes the holder's entry.
func deleteHolderEntry(ctx context.Context, st *stage) {
	st.ends(ctx, st.holder(), 0, func(entry string) error { return st.svc.Delete(ctx, entry) })
	st.fouled(ctx)
}

// fouled is what follows when somebody else has ended the holder's hold.
func (st *stage) fouled(ctx context.Context) {
	st.granted(ctx, st.head(), st.struck)
	until(ctx, TTL, st.holder().over)
	passOn(ctx, st)
}

// endWaiterSession ends the head waiter's session.
func endWaiterSession(ctx context.Context, st *stage) {
	p := st.head()
	st.ends(ctx, p, 1, func(string) error { return st.svc.EndSession(ctx, p.c.Session()) })
	passOn(ctx, st)
}

// deleteWaiterEntry deletes the head waiter's entry.
func deleteWaiterEntry(ctx context.Context, st *stage) {
	st.ends(ctx, st.head(), 1, func(entry string) error { return st.svc.Delete(ctx, entry) })
	passOn(ctx, st)
}

// ends strikes at p's entry, which is number i in line, and sees that it has gone.
func (st *stage) ends(ctx context.Context, p *player, i int, f func(entry string) error) {
	before, err := st.svc.Entries(ctx, st.lock, st.line.Name)
	if err != nil || len(before) <= i {
		st.miss("number %d was not in line: %v", i, err)
		return
	}
	st.strike(p, func() { err = f(before[i]) })
	if err == nil {
		err = st.leavesAtOnce(ctx, i, before)
	}
	if err != nil {
		st.miss("entry %q: %v", before[i], err)
	}
}

// leavesAtOnce sees that number i of those that were in line has gone when whoever
// ended it says so. One that goes later has gone by itself, as on a crowded machine
// sessions do. A look that was begun in time counts, however long it takes.
func (st *stage) leavesAtOnce(ctx context.Context, i int, before []string) error {
	since, stays := Now(), false
	err := untilSeen(ctx, sight, func(ctx context.Context) (bool, error) {
		began := Now()
		line, err := st.svc.Entries(ctx, st.lock, st.line.Name)
		if err != nil {
			return false, err
		}
		// Who joins again may have the name again, at the end: behind all others, or
		// in its old place, if they have held meanwhile and gone.
		there := len(line) >= len(before) && line[i] == before[i]
		stays = there && time.Duration(began-since) > promptly+st.beat.stalls(since, began)
		return stays || !there, nil
	})
	if stays {
		return errors.New("it was ended, and is still there")
	}
	return err
}

// bearable is how late replies may be for a session to be opened and kept: the
// first renewal has to be answered before the time has passed that the grant of a
// lease has left, both counted from when they were sent. With a TTL of 2 s and a
// margin of 1 s that is half a second.
const bearable = 350 * time.Millisecond

// delayReplies lets all replies to everybody come late. If that cannot be borne
// for long, sessions are lost over and over, and nothing is promised but that
// those who hold are told, until it is over.
func delayReplies(ctx context.Context, st *stage) {
	d := 100*time.Millisecond + time.Duration(st.rng.Int64N(int64(600*time.Millisecond)))
	for _, p := range st.players {
		st.strike(p, func() { p.c.Delay(d) })
	}
	for _, p := range st.players {
		if st.meets(ctx, p); !st.Hit() {
			break
		}
	}
	st.release()
	if d > bearable {
		await(ctx, st.last().gone, 2*TTL)
		st.heal()
		st.freed = Now()
	}
	goOn(ctx, st)
}

// loses is the kind that loses the reply to a kind of request. It is aimed at one
// who asks while another holds and a second waits, who then holds itself, before
// a fourth: so whatever it sends in its life is sent with others in line. In
// every other trial its context ends at that moment, if it still waits.
func loses(request string) *kind {
	return &kind{
		name: losing + request, four: true,
		before: func(ctx context.Context, st *stage) error { return st.askAndLose(ctx, request) },
		play: func(ctx context.Context, st *stage) {
			passOn(ctx, st)
			await(ctx, st.last().gone, patience)
			if !st.lost() {
				st.miss("no reply to %q was lost", request)
			}
		},
	}
}

// askAndLose has the third and the fourth player ask.
func (st *stage) askAndLose(ctx context.Context, request string) error {
	p := st.last()
	p.keep = TTL / 2 // so that it renews
	st.strike(p, func() { st.lost = p.c.Lose(request) })
	p.start()
	err := untilSeen(ctx, patience, func(ctx context.Context) (bool, error) {
		line, err := st.svc.Entries(ctx, st.lock, st.line.Name)
		return st.lost() || p.returned() || len(line) > 2 || st.ready() != nil, err
	})
	if err = errors.Join(err, st.ready()); err != nil {
		return err
	}
	// What it sends as it begins to wait it sends by now.
	until(ctx, TTL/4, st.lost)
	n := 4
	if st.lost() && st.n%2 == 1 {
		p.end()
		await(ctx, p.got, TTL)
	}
	if p.returned() {
		n = 3
	}
	behind := st.players[3]
	behind.start()
	return untilSeen(ctx, patience, func(ctx context.Context) (bool, error) {
		line, err := st.svc.Entries(ctx, st.lock, st.line.Name)
		if err == nil && st.ready() == nil && len(line) < n {
			err = fmt.Errorf("%d in line, want %d", len(line), n)
		}
		return err == nil, err
	})
}

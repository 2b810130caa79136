package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/robustness/history"
)

// Bounds. Those that promises are measured with are never widened.
const (
	patience  = 30 * time.Second       // for what takes milliseconds on a calm machine
	sight     = 10 * time.Second       // in which a fault has to be seen to be in effect
	failover  = 4 * time.Second        // for another leader, and for clients to find it, see progress
	finding   = 1 * time.Second        // for the latter alone
	slack     = 2 * time.Second        // for the store's own delay in expiring what is due
	promptly  = 100 * time.Millisecond // S6
	work      = 20 * time.Millisecond  // that a waiter does when it holds
	aftermath = 1500 * time.Millisecond
)

// remains is how long anything may stay when everybody has ended (S5).
const remains = TTL + slack

// progress is how long who is first in line may have to wait when the majority is
// up (L1), where the service had no leader for some time. The library cannot make
// up for that time, and a bound that has to be above all that it may be would be
// far above what it is.
func progress(without time.Duration) time.Duration {
	return TTL + max(failover, without+finding) + slack
}

// stage is one trial: a line of its own, a holder, a head waiter behind it, and
// another waiter behind that, each with a client of its own.
type stage struct {
	svc   Service
	lock  string
	kind  *kind
	rng   *rand.Rand // one goroutine at a time, the script's
	n     int        // its number in the round
	aim   *aim
	beat  beat
	reign *reign // nil where faults are aimed at clients

	line    history.Queue
	at      *resource // that the line protects
	players []*player
	process *Process         // that holds, instead of a player
	visit   *visit           // of the process
	record  *history.Attempt // of the process

	struck, freed history.Instant
	lost          func() bool // the reply that is to be lost was
	first         string      // the name of its first line
	casts         int
	down          bool // it could not be cast
	blind         bool // what is at the store could not be seen
	Result
}

func (st *stage) holder() *player { return st.players[0] }
func (st *stage) head() *player   { return st.players[1] }
func (st *stage) last() *player   { return st.players[2] }

// asks are what the players want of a line, each so that it has to wait for the
// one before.
func (st *stage) asks() []Ask {
	asks := make([]Ask, 4)
	reader := st.rng.IntN(2)
	for i := range asks {
		asks[i].Weight = 1
		switch st.line.Recipe {
		case history.ReadWrite:
			asks[i].Shared = i%2 == reader
		case history.Semaphore:
			asks[i].Weight = 2
		case history.Mutex, history.Reentrant:
		}
	}
	if st.line.Recipe == history.Semaphore && !st.kind.four {
		asks[2].Weight = 1 // fits in beside the head, and not before it
	}
	return asks
}

// casts is how often the players are set up anew when one has lost its place
// before anything was done to it, as happens to processes that are starved.
const casts = 6

// cast opens the clients, and has the holder hold and the others wait.
func (st *stage) cast(ctx context.Context) error {
	for ; ; st.anew() {
		st.casts++
		err := st.castOnce(ctx)
		if err == nil || st.casts >= casts || ctx.Err() != nil {
			return err
		}
	}
}

// anew ends what castOnce has begun, and takes another line.
func (st *stage) anew() {
	st.abandon()
	if st.first == "" {
		st.first = st.line.Name
	}
	st.line.Name = fmt.Sprintf("%s-%d", st.first, st.casts)
	st.Line = st.line.Name
}

// abandon ends what castOnce has begun.
func (st *stage) abandon() {
	st.heal()
	for _, p := range st.players {
		if p != nil {
			p.let()
			p.end()
		}
	}
	if st.process != nil {
		st.process.Halt()
	}
	st.close()
	st.players, st.process = nil, nil
}

func (st *stage) castOnce(ctx context.Context) error {
	n := 3
	if st.kind.four {
		n = 4
	}
	asks := st.asks()
	st.at = newResource(st.line)
	st.players = make([]*player, n)
	var g errgroup.Group
	for i := range st.players {
		var at []int
		if st.kind.members != nil {
			at = st.kind.members(st, i)
		}
		g.Go(func() error {
			if i == 0 && st.kind.process {
				return nil
			}
			c, err := st.svc.Client(ctx, st.lock, at...)
			if err != nil {
				return fmt.Errorf("open client %d: %w", i, err)
			}
			keep := work
			if i == 0 || i == 1 && st.kind.headStays {
				keep = -1
			}
			st.players[i] = newPlayer(i, c, st.line, st.at, asks[i], keep)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := st.begin(ctx); err != nil {
		return err
	}
	for i, p := range st.players[1:] {
		if i == 1 && st.kind.before != nil {
			if err := st.kind.before(ctx, st); err != nil {
				return err
			}
			break
		}
		p.start()
		if err := st.stands(ctx, i+2); err != nil {
			return err
		}
	}
	return errors.Join(st.ready(), st.there(ctx))
}

// begin has the holder hold.
func (st *stage) begin(ctx context.Context) error {
	if st.kind.process {
		return st.beginProcess(ctx)
	}
	p := st.holder()
	p.start()
	if !await(ctx, p.got, patience) || !p.holds() {
		return errors.New("the holder does not hold")
	}
	return nil
}

// beginProcess is begin with the holder in a process. What that does at the
// resource is done here for it, as by somebody who passes messages on.
func (st *stage) beginProcess(ctx context.Context) (err error) {
	if st.process, err = st.svc.Process(ctx, st.lock, st.line.Name); err != nil {
		return err
	}
	a, err := st.process.Report(ctx)
	if err == nil {
		st.visit = st.at.read(a)
	}
	return err
}

// stands waits until so many are in line, and says if somebody leaves it
// meanwhile.
func (st *stage) stands(ctx context.Context, n int) error {
	var left error
	err := untilSeen(ctx, patience, func(ctx context.Context) (bool, error) {
		if left = st.ready(); left != nil {
			return true, left
		}
		line, err := st.svc.Entries(ctx, st.lock, st.line.Name)
		return len(line) == n, err
	})
	if err = errors.Join(left, err); err != nil {
		return fmt.Errorf("%d in line: %w", n, err)
	}
	return nil
}

// ready says whether the fault finds what it is aimed at.
func (st *stage) ready() error {
	if !st.kind.process && !st.holder().holds() {
		return errors.New("the holder did not hold any more")
	}
	if st.head().returned() {
		return errors.New("the head waiter did not wait any more")
	}
	return nil
}

// there says whether the player that the fault is aimed at is where it is aimed.
func (st *stage) there(ctx context.Context) error {
	if st.kind.who == nil {
		return nil
	}
	p := st.kind.who(st)
	if !until(ctx, TTL, func() bool { return p.c.Member() == st.aim.member }) {
		return fmt.Errorf("client %d is connected to member %d, not %d", p.id, p.c.Member(), st.aim.member)
	}
	return st.ready()
}

// miss notes why the trial does not count; the first reason stays.
func (st *stage) miss(format string, args ...any) {
	if st.Missed == "" {
		st.Missed = fmt.Sprintf(format, args...)
	}
}

// void notes why nothing can be said of the trial at all.
func (st *stage) void(format string, args ...any) {
	st.miss(format, args...)
	st.blind = true
}

// strike does something to a player, now.
func (st *stage) strike(p *player, f func()) {
	if p != nil {
		p.harm(st.kind.name)
	}
	st.struck = Now()
	f()
}

// release has the holder give back, from when the others are to go on.
func (st *stage) release() {
	if st.holder() != nil {
		st.holder().let()
	}
	st.freed = Now()
}

// granted waits until a player holds, and takes it for a violation of L1 if it
// takes longer than that may from a moment on. One whose request fails or whose
// context has ended is not waited for. Time in which nothing ran does not count.
func (st *stage) granted(ctx context.Context, p *player, since history.Instant) {
	for ctx.Err() == nil {
		now := Now()
		left := progress(st.reign.without()) + st.beat.stalls(since, now) - time.Duration(now-since)
		if left <= 0 || await(ctx, p.got, left) {
			break
		}
	}
	a := p.attempt()
	switch {
	case a.Failed != "" || a.Ends != 0:
	case a.Got == 0:
		st.violated("L1", fmt.Sprintf("client %d was not granted within %s", p.id, progress(st.reign.without())))
	default:
		st.figure(Progress, max(0, time.Duration(a.Got-since)))
	}
}

// passOn has the holder give back, and the others hold one after the other.
func passOn(ctx context.Context, st *stage) {
	st.release()
	goOn(ctx, st)
}

// leaves waits until an entry is out of the line, and returns when that was.
func (st *stage) leaves(ctx context.Context, entry string, d time.Duration) history.Instant {
	if w, ok := st.svc.(Witness); ok {
		until(ctx, d, func() bool { return w.Left(entry) != 0 })
		return w.Left(entry)
	}
	err := untilSeen(ctx, d, func(ctx context.Context) (bool, error) {
		line, err := st.svc.Entries(ctx, st.lock, st.line.Name)
		return err == nil && !slices.Contains(line, entry), err
	})
	if err != nil {
		return 0
	}
	return Now()
}

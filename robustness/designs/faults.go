package designs

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/robustness/trial"
)

// Fault is one fault, aimed at the programs of a trial or at the servers.
type Fault struct {
	Name string // on the command line
	Text string // on the page

	// server means that the fault is the one at the servers, for all trials of a round at once.
	server bool

	// process means that the holder is a process of its own.
	process bool

	// patient means that the fault takes longer than the work of a holder would: the times of designs are
	// long then, because work that is longer than its time is a fault of its own.
	patient bool

	// brief means that the waiters work for a moment only, and not until the script has them release.
	brief bool

	run func(ctx context.Context, t *try)
}

// Times. The time of a lock is trial.TTL, as in all trials of robustness, and long where a fault is patient.
const (
	patience  = 15 * time.Second
	bound     = 10 * time.Second       // within which a waiter is granted, and programs are done
	settle    = 300 * time.Millisecond // for what happens at once
	noticing  = 2500 * time.Millisecond
	longWork  = 5 * trial.TTL / 2
	crowd     = 12
	longStart = 30 * time.Second // for what takes milliseconds on an idle machine

	// A trial does not count in which the machine ran nothing for so long: the time of a lock could be over
	// for that reason.
	longestStall = trial.TTL / 2
)

// The faults at servers, which a Stand carries out.
const (
	Restarted  = "server-restarted"
	Emptied    = "server-emptied"
	FailedOver = "failed-over"
	ClockMoved = "clock-moved"
)

// Faults returns all faults.
func Faults() []*Fault {
	return []*Fault{
		{Name: "none", Text: "no fault", run: noFault},
		{Name: "holder-killed", Text: "holder killed", process: true, run: killHolder},
		{Name: "holder-stopped", Text: "holder stopped past its time", process: true, run: stopHolder},
		{Name: "holder-cut", Text: "holder cut off", run: cutHolder},
		{Name: "release-lost", Text: "release lost", run: loseRelease},
		{Name: "long-work", Text: "work longer than the time", brief: true, run: workLong},
		{Name: "waiter-dies", Text: "a waiter dies", patient: true, run: killWaiter},
		{Name: "crowd", Text: "12 at once in one program", patient: true, run: crowded},
		{Name: Restarted, Text: "server restarted, with its data", server: true, patient: true, run: afterServers},
		{Name: Emptied, Text: "server restarted, empty", server: true, patient: true, run: afterServers},
		{Name: FailedOver, Text: "failed over", server: true, patient: true, run: afterServers},
		{Name: ClockMoved, Text: "clock an hour ahead", server: true, patient: true, run: afterServers},
	}
}

// FaultOf returns the fault of that name; nil if there is none.
func FaultOf(name string) *Fault {
	all := Faults()
	i := slices.IndexFunc(all, func(f *Fault) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

func noFault(ctx context.Context, t *try) {
	t.faultAt = trial.Now()
	t.handOver(ctx)
}

// killHolder kills the holder's process after it has written.
func killHolder(ctx context.Context, t *try) {
	t.reportOf(ctx)
	t.access.Write()
	t.faultAt = trial.Now()
	t.process.Halt()
	t.process = nil
	t.granted(ctx)
	t.rest(ctx)
}

// stopHolder stops the holder's process until the first waiter holds. The process was about to write, and goes
// on with that: it has checked its hold before, if it checks. Then it releases.
func stopHolder(ctx context.Context, t *try) {
	t.faultAt = trial.Now()
	if err := t.process.Pause(); err != nil {
		t.miss("%v", err)
		return
	}
	t.granted(ctx)
	if err := t.process.Resume(); err != nil {
		t.miss("%v", err)
		return
	}
	t.access.Write()
	lockWait(ctx, settle/3) // it does the rest of its work, if it has not learned of a loss
	t.stopProcess(ctx)
	t.rest(ctx)
}

// cutHolder cuts the holder off until the first waiter holds. The holder goes on with its work, writes if it has
// not learned of a loss, and releases.
func cutHolder(ctx context.Context, t *try) {
	t.faultAt = trial.Now()
	t.holder.using().Cut(fault.Both)
	t.granted(ctx)
	t.holder.using().Heal()
	lockWait(ctx, settle/3)
	t.holder.release()
	t.rest(ctx)
}

// loseRelease loses the request of the release, with its connection. The program of the holder goes on with other
// work, and keeps its client.
func loseRelease(ctx context.Context, t *try) {
	t.faultAt = trial.Now()
	t.holder.using().Cut(fault.Requests)
	t.holder.patience = time.Second
	t.holder.release()
	await(ctx, t.holder.done, bound)
	t.holder.using().Reset()
	t.holder.using().Heal()
	t.rest(ctx)
}

// workLong has the holder work for longer than the time of the lock.
func workLong(ctx context.Context, t *try) {
	t.faultAt = trial.Now()
	lockWait(ctx, longWork)
	t.handOver(ctx)
}

// killWaiter ends the program of the first waiter, as a kill does: the other side sees the end of the connections.
// No waiter may be granted for that.
func killWaiter(ctx context.Context, t *try) {
	t.faultAt = trial.Now()
	t.first.kill()
	t.first, t.second, t.dead = t.second, t.first, true
	await(ctx, t.first.got, trial.TTL+noticing)
	t.handOver(ctx)
}

// afterServers is the rest of a trial in which something has happened to the servers. The holder works on for as
// long as it takes until a waiter is granted by mistake, if that happens, and releases then.
func afterServers(ctx context.Context, t *try) {
	await(ctx, t.first.got, noticing)
	lockWait(ctx, settle/3)
	t.handOver(ctx)
}

// serverFault carries out the fault at the servers: before calls the set-up of the trials when the servers are
// prepared, and hold has the holders hold.
func serverFault(ctx context.Context, b *trial.Break, rng *rand.Rand, before, hold func()) error {
	if b.Before != nil {
		if err := b.Before(ctx); err != nil {
			return err
		}
	}
	before()
	if b.Late != nil {
		if err := b.Late(ctx); err != nil {
			return err
		}
	}
	hold()
	err := b.Inject(ctx, rng, nil)
	if err == nil && b.Most > 0 {
		lockWait(ctx, b.Least+time.Duration(rng.Int64N(int64(b.Most-b.Least)+1)))
	}
	if b.End != nil {
		endErr := b.End(context.WithoutCancel(ctx))
		if err == nil {
			err = endErr
		}
	}
	return err
}

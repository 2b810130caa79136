package designs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// try is one trial: a holder, and two that wait behind it.
type try struct {
	stand   Stand
	d       *Design
	f       *Fault
	timeout time.Duration // of the lock

	queue    history.Queue
	resource *trial.Resource

	holder, first, second *program       // the first one is the one that was granted first, see granted
	dead                  bool           // the second one has been killed
	more                  []*program     // of a crowd
	process               *trial.Process // instead of holder
	access                *trial.Access  // of the process, made here for it
	record                *history.Attempt

	faultAt history.Instant
	Result
}

func (t *try) miss(format string, args ...any) {
	if t.Missed == "" {
		t.Missed = fmt.Sprintf(format, args...)
	}
}

func (t *try) hit() bool { return t.Missed == "" }

// open opens the clients, before anybody holds.
func (t *try) open(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, longStart)
	defer cancel()
	reopen := func() (trial.Client, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), trial.TTL)
		defer cancel()
		return t.stand.Open(ctx, t.d, t.timeout)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	begin := func(p **program, id int, keep time.Duration) {
		wg.Go(func() {
			c, err := t.stand.Open(ctx, t.d, t.timeout)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				t.miss("client %d was not opened: %v", id, err)
				return
			}
			*p = newProgram(id, c, t.queue, t.resource, keep)
			(*p).reopen = reopen
		})
	}
	if !t.f.process {
		begin(&t.holder, 0, -1)
	}
	keep := time.Duration(-1)
	if t.f.brief {
		keep = workTime
	}
	begin(&t.first, 1, keep)
	begin(&t.second, 2, keep)
	wg.Wait()
}

// workTime is how long a program works that does not wait for the script.
const workTime = 20 * time.Millisecond

// hold has the holder hold and the others wait.
func (t *try) hold(ctx context.Context) {
	if !t.hit() {
		return
	}
	if t.f.process {
		t.startProcess(ctx)
	} else {
		t.holder.start() //nolint:contextcheck // the request outlives the step of the script that makes it
		if !await(ctx, t.holder.got, bound) {
			t.miss("the holder was not granted%s", t.holder.why())
		}
	}
	if !t.hit() {
		return
	}
	for _, p := range []*program{t.first, t.second} {
		p.start()               //nolint:contextcheck // as above
		lockWait(ctx, settle/2) // a waiter asks every 50 ms, or has joined its queue by then
	}
	if t.d.clocked {
		setClocks(t)
	}
}

// setClocks moves the clocks of the waiters' programs, if the fault is about clocks and the design depends on them.
func setClocks(t *try) {
	if t.f.Name != ClockMoved {
		return
	}
	for _, p := range []*program{t.first, t.second} {
		setClock(p.using(), time.Hour)
	}
}

// startProcess has the holder hold in a process. This process accesses the resource on its behalf.
func (t *try) startProcess(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, longStart)
	defer cancel()
	var err error
	t.process, err = t.stand.Process(within, t.d, t.queue.Name)
	if err != nil {
		t.miss("the holder's process was not granted: %v", err)
		return
	}
	t.reportOf(ctx)
	if t.hit() {
		t.access = t.resource.Read(*t.record)
	}
}

// reportOf asks the process for the record of its hold.
func (t *try) reportOf(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	a, err := t.process.Report(within)
	if err != nil {
		t.miss("%v", err)
		return
	}
	t.record = &a
}

// stopProcess has the process release and end.
func (t *try) stopProcess(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	a, err := t.process.Stop(within)
	t.process = nil
	if err != nil {
		t.miss("the process did not end: %v", err)
		return
	}
	t.record = &a
}

// granted waits until one of the waiters is granted, which is first then: not every design keeps their order. None
// is ever granted if that takes longer than bound.
func (t *try) granted(ctx context.Context) bool {
	if isClosed(t.first.got) { // by now the second one may hold too
		return true
	}
	late := time.NewTimer(bound)
	defer late.Stop()
	select {
	case <-t.first.got:
	case <-t.second.got:
		t.first, t.second = t.second, t.first
	case <-late.C:
	case <-ctx.Done():
	}
	if !isClosed(t.first.got) {
		t.Never = fmt.Sprintf("no waiter was granted within %s%s", bound, t.first.why())
		return false
	}
	return true
}

// handOver has the holder release, and the others hold one after another.
func (t *try) handOver(ctx context.Context) {
	t.holder.release()
	t.rest(ctx)
}

// rest has the waiters hold one after another, when the holder has released or is dead. The first one works until
// the release of the holder, which may be late, has had its effect.
func (t *try) rest(ctx context.Context) {
	if t.holder != nil {
		await(ctx, t.holder.done, bound)
	}
	if !t.granted(ctx) {
		return
	}
	a, _ := t.first.attempt()
	t.FaultToGrant = max(0, time.Duration(a.Got-t.faultAt))
	lockWait(ctx, settle)
	t.first.release()
	await(ctx, t.first.done, bound)
	if t.dead {
		return
	}
	if !await(ctx, t.second.got, bound) {
		t.Never = fmt.Sprintf("the second waiter was not granted within %s%s", bound, t.second.why())
		return
	}
	lockWait(ctx, workTime)
	t.second.release()
	await(ctx, t.second.done, bound)
}

// crowded has several goroutines of one program request the lock at the same time, through one client. Each of them
// sends a request of its work while it holds.
func crowded(ctx context.Context, t *try) {
	t.faultAt = trial.Now()
	for i := range crowd {
		p := newProgram(10+i, t.first.using(), t.queue, t.resource, workTime)
		t.more = append(t.more, p)
		p.start() //nolint:contextcheck // as above
	}
	lockWait(ctx, settle)
	t.handOver(ctx)
	late := time.Now().Add(bound)
	waiting := 0
	for _, p := range t.more {
		if !await(ctx, p.done, time.Until(late)) {
			waiting++
		}
	}
	if waiting > 0 {
		t.Never = fmt.Sprintf("%d of %d goroutines of one program were not granted within %s", waiting, crowd, bound)
	}
}

// finish ends all programs, and looks whether the lock is free then.
func (t *try) finish(ctx context.Context) {
	var all []*program
	for _, p := range append([]*program{t.holder, t.first, t.second}, t.more...) {
		if p != nil {
			all = append(all, p)
		}
	}
	for _, p := range all {
		p.release()
		p.cancel()
	}
	if t.process != nil {
		t.process.Halt()
	}
	closed := make(chan struct{})
	go func() { // ends with the clients, see client.Close
		defer close(closed)
		var wg sync.WaitGroup
		for _, p := range []*program{t.holder, t.first, t.second} {
			if p != nil {
				wg.Go(func() { _ = p.using().Close() }) // its requests may be unanswered
			}
		}
		wg.Wait()
	}()
	if !await(ctx, closed, longStart) {
		t.miss("the clients were not closed within %s", longStart)
	}
	for _, p := range all {
		if p.begun && !await(ctx, p.done, bound) {
			t.miss("client %d did not return after it was closed", p.id)
		}
	}
	if t.hit() {
		t.newcomer(ctx)
	}
	t.judge(all)
}

// newcomer has another program request the lock, when all others have ended.
func (t *try) newcomer(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	c, err := t.stand.Open(ctx, t.d, trial.TTL)
	if err != nil {
		t.miss("the newcomer was not opened: %v", err)
		return
	}
	defer func() { _ = c.Close() }() // what it has is of no interest
	for {
		h, err := c.Acquire(ctx, t.queue, trial.Request{Weight: 1})
		if err == nil {
			t.Orphan = ""
			_, _ = h.Release(ctx) // the lock was free, and that was asked
			return
		}
		t.Orphan = fmt.Sprintf("%s after all programs have ended, the lock is still taken", bound)
		if ctx.Err() != nil || errors.Is(err, trial.ErrUseless) {
			return
		}
		lockWait(ctx, settle/3)
	}
}

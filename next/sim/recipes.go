package sim

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/next/driver"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// recipe is what the workers of a run use.
type recipe struct {
	name   string
	lay    func(w *world)
	round  func(k *worker)
	finish func(k *worker)
}

func recipes() []recipe {
	return []recipe{
		{"mutex", layMutex, mutexRound, mutexFinish},
		{"reentrant", layMutex, reentrantRound, mutexFinish},
		{"robust", layRobust, robustRound, mutexFinish},
		{"all", layAll, allRound, allFinish},
		{"rwlock", layOne, readWriteRound, readWriteFinish},
		{"semaphore", layOne, semaphoreRound, semaphoreFinish},
		{"election", layElection, electionRound, electionFinish},
	}
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func layOne(w *world) {
	ln := w.addLine("a", &w.recipe)
	ln.resizes = []*resize{{limit: firstLimit, returned: 1, done: true}}
}

func layMutex(w *world) {
	for i := range 1 + w.random.IntN(2) {
		w.addLine(name("m", i), &w.recipe)
	}
}

// one draws a line.
func (k *worker) one() *line { return k.w.lines[k.random.IntN(len(k.w.lines))] }

// mutex is the one of a line.
func (k *worker) mutex(ln *line) *mutex.Mutex {
	return mutex.NewWith(k.c.session, ln.name, mutex.Options{
		Reentrant: k.w.recipe.name == "reentrant", Robust: ln.robust, LockDelay: ln.delay,
	})
}

// lock takes a mutex, or tries to.
func (k *worker) lock(ln *line, try bool) *hold {
	m := k.mutex(ln)
	want := m.Lock
	if try {
		want = m.TryLock
	}
	return k.acquire(asked{lines: []*line{ln}, try: try, ends: 2}, want)
}

func mutexRound(k *worker) {
	ln := k.one()
	if k.chance(5) {
		k.do(ln)
		return
	}
	if hd := k.lock(ln, k.chance(6)); hd != nil {
		k.keep(hd)
		k.giveBack(hd)
	}
}

// do is a round in a function that the library calls.
func (k *worker) do(ln *line) {
	a := &attempt{k: k, called: k.w.Now(), ends: -1}
	var hd *hold
	err := k.mutex(ln).Do(k.ctx, func(_ context.Context, h *session.Hold) error {
		hd = k.takes(a, asked{lines: []*line{ln}}, h)
		k.sleep(0, 0)
		k.keep(hd)
		hd.given = true
		hd.back = k.w.Now()
		return nil
	})
	if hd == nil {
		k.w.tell(k.name, func() { k.w.refused(a, asked{}, err) })
		return
	}
	k.w.tell(k.name, func() {
		if err == nil { // Do does not tell whether the release is pending
			k.w.log(k.c, "gave back", k.name+" "+hd.name)
			hd.forget()
			return
		}
		k.w.unlocked(hd, hd.back, err, nil)
	})
	k.sleep(0, 0)
}

func mutexFinish(k *worker) {
	for _, ln := range k.w.lines {
		k.giveBack(k.acquire(asked{lines: []*line{ln}}, k.mutex(ln).Lock))
	}
}

func reentrantRound(k *worker) {
	ln := k.one()
	hd := k.lock(ln, k.chance(6))
	if hd == nil {
		return
	}
	k.keep(hd)
	if k.chance(4) {
		k.race(hd, k.mutex(ln).Lock)
		return
	}
	k.nest(hd, k.mutex(ln).Lock)
	k.giveBack(hd)
}

// nest enters a hold, and gives one of the two back.
func (k *worker) nest(hd *hold, enter func(context.Context) (*session.Hold, error)) {
	outer := hd.h
	inner, err := enter(outer.Context())
	switch {
	case err != nil: // the hold was lost, and so was the place; or its context has ended
		if outer.Context().Err() == nil {
			k.w.tell(k.name, func() { k.w.fail("S6", "%s cannot enter its hold: %v", k.name, err) })
		}
		return
	case inner.Token() != outer.Token(): // lost a moment ago: it waited its turn again
		_ = inner.Unlock()
		return
	case k.chance(2):
		_ = inner.Unlock()
	default:
		if hd.h = inner; inner.Mode() == session.Shared {
			hd.mode = driver.Shared
		}
		_ = outer.Unlock()
	}
	k.sleep(0, 0)
	k.keep(hd)
}

// race enters a hold while another goroutine unlocks it, and gives back what it got.
func (k *worker) race(hd *hold, enter func(context.Context) (*session.Hold, error)) {
	hd.given = true
	k.w.ended(k, hd)
	unlocked, beside := make(chan struct{}), k.in(0, time.Millisecond)
	go func() { // ends when Unlock returns
		defer close(unlocked)
		k.c.sleep(k.name+" beside", beside)
		_ = hd.h.Unlock()
	}()
	k.sleep(0, time.Millisecond)
	if inner, err := enter(hd.h.Context()); err == nil {
		k.sleep(0, time.Millisecond)
		_ = inner.Unlock()
	}
	<-unlocked
	k.sleep(0, 0)
}

func layRobust(w *world) {
	delay := time.Duration(0)
	if !w.chance(3) {
		delay = w.in(10*time.Millisecond, 400*time.Millisecond)
	}
	for i := range 1 + w.random.IntN(2) {
		ln := w.addLine(name("r", i), &w.recipe)
		ln.robust, ln.delay = true, delay
	}
}

func robustRound(k *worker) {
	if len(k.w.lines) > 1 && k.chance(3) {
		allRound(k)
		return
	}
	ln := k.one()
	if hd := k.lock(ln, k.chance(8)); hd != nil {
		k.keep(hd)
		k.giveBack(hd)
	}
}

func layAll(w *world) {
	for i := range 2 + w.random.IntN(2) {
		w.addLine(name("l", i), &w.recipe)
	}
}

// some draws several lines, in any order.
func (k *worker) some() (lines []*line, locks []*mutex.Mutex) {
	n := 2 + k.random.IntN(len(k.w.lines)-1)
	for _, i := range k.random.Perm(len(k.w.lines))[:n] {
		lines = append(lines, k.w.lines[i])
		locks = append(locks, k.mutex(k.w.lines[i]))
	}
	return lines, locks
}

func allRound(k *worker) {
	if k.chance(4) && !k.w.lines[0].robust {
		mutexRound(k)
		return
	}
	lines, locks := k.some()
	try := k.chance(8)
	hd := k.acquire(asked{lines: lines, try: try, ends: 2}, func(ctx context.Context) (*session.Hold, error) {
		if try {
			return mutex.TryLockAll(ctx, locks...)
		}
		return mutex.LockAll(ctx, locks...)
	})
	if hd != nil {
		k.keep(hd)
		k.giveBack(hd)
	}
}

func allFinish(k *worker) {
	var locks []*mutex.Mutex
	for _, ln := range k.w.lines {
		locks = append(locks, k.mutex(ln))
	}
	k.giveBack(k.acquire(asked{lines: k.w.lines}, func(ctx context.Context) (*session.Hold, error) {
		return mutex.LockAll(ctx, locks...)
	}))
}

func readWriteRound(k *worker) {
	ln := k.one()
	l := rwlock.New(k.c.session, ln.name)
	as := asked{lines: []*line{ln}, mode: driver.Shared, try: k.chance(6), ends: 2}
	want := l.RLock
	writes := k.chance(2)
	switch {
	case writes && as.try:
		want = l.TryLock
	case writes:
		want = l.Lock
	case as.try:
		want = l.TryRLock
	}
	if writes {
		as.mode = driver.Exclusive
	}
	hd := k.acquire(as, want)
	if hd == nil {
		return
	}
	k.keep(hd)
	switch {
	case k.chance(6):
		k.race(hd, l.RLock)
		return
	case k.chance(3):
		k.nest(hd, l.RLock)
	case writes && !k.chance(4):
		k.downgrade(l, hd)
	}
	k.giveBack(hd)
}

// downgrade makes a writer a reader. From the call on readers may be let in.
func (k *worker) downgrade(l *rwlock.RWLock, hd *hold) {
	hd.mode = driver.Shared
	token := hd.h.Token()
	called := k.w.Now()
	ctx, cancel := driver.WithTimeout(k.ctx, k.c, time.Second)
	err := l.Downgrade(ctx, hd.h)
	cancel()
	k.w.tell(k.name, func() { k.w.downgraded(hd, token, called, err) })
	k.sleep(0, 0)
	k.keep(hd)
}

func readWriteFinish(k *worker) {
	ln := k.one()
	l := rwlock.New(k.c.session, ln.name)
	k.giveBack(k.acquire(asked{lines: []*line{ln}, mode: driver.Exclusive}, l.Lock))
	k.giveBack(k.acquire(asked{lines: []*line{ln}, mode: driver.Shared}, l.RLock))
}

// The permits of a run.
const (
	firstLimit = 3
	mostLimit  = 5
)

func semaphoreRound(k *worker) {
	ln := k.one()
	m := semaphore.NewWith(k.c.session, ln.name, firstLimit, semaphore.Options{Follow: true, Slots: k.w.cfg.Seed%2 == 0})
	if k.chance(4) {
		// Some give up soon, and leave open whether it was done.
		ctx, cancel := driver.WithTimeout(k.ctx, k.c, k.in(0, 40*time.Millisecond)*time.Duration(1+24*k.random.IntN(2)))
		r := &resize{limit: 1 + k.random.Int64N(mostLimit), called: k.w.Now()}
		k.w.tell(k.name, func() { ln.resizes = append(ln.resizes, r) })
		err := m.Resize(ctx, r.limit)
		cancel()
		k.w.tell(k.name, func() { r.returned, r.done = k.w.Now(), err == nil })
		k.sleep(0, 100*time.Millisecond)
		return
	}
	n := 1 + k.random.Int64N(3)
	as := asked{lines: []*line{ln}, mode: driver.Weighted, weight: n, try: k.chance(6), ends: 2}
	hd := k.acquire(as, func(ctx context.Context) (*session.Hold, error) {
		if as.try {
			return m.TryAcquire(ctx, n)
		}
		return m.Acquire(ctx, n)
	})
	if hd != nil {
		k.keep(hd)
		k.giveBack(hd)
	}
}

func semaphoreFinish(k *worker) {
	ln := k.one()
	m := semaphore.NewWith(k.c.session, ln.name, firstLimit, semaphore.Options{Follow: true})
	hd := k.acquire(asked{lines: []*line{ln}, mode: driver.Weighted, weight: 1}, func(ctx context.Context) (*session.Hold, error) {
		return m.Acquire(ctx, 1)
	})
	k.giveBack(hd)
}

func layElection(w *world) {
	w.addLine("e", &w.recipe)
	// Each at a client of its own: the watches of two at one client would have the
	// same name, and it would not be settled whose comes first.
	for _, i := range w.random.Perm(len(w.clients))[:1+w.random.IntN(2)] {
		w.watch(w.clients[i])
	}
}

func electionRound(k *worker) {
	ln := k.one()
	e := election.New(k.c.session, ln.name)
	if k.chance(4) {
		k.lead(e, ln)
		return
	}
	hd := k.acquire(asked{lines: []*line{ln}, ends: 2}, func(ctx context.Context) (*session.Hold, error) {
		return e.Campaign(ctx, k.name)
	})
	if hd == nil {
		return
	}
	k.keep(hd)
	k.proclaim(e, hd, k.name+" says more")
	k.keep(hd)
	k.giveBack(hd)
}

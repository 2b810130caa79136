package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// recipe is what the workers of a run use.
type recipe struct {
	name   string
	setUp  func(w *simulation)
	round  func(k *worker)
	finish func(k *worker)
}

func recipes() []recipe {
	return []recipe{
		{"mutex", setUpMutex, mutexRound, mutexFinish},
		{"reentrant", setUpMutex, reentrantRound, mutexFinish},
		{"robust", setUpRobust, robustRound, mutexFinish},
		{"all", setUpAll, allRound, allFinish},
		{"rwlock", setUpOne, readWriteRound, readWriteFinish},
		{"semaphore", setUpOne, semaphoreRound, semaphoreFinish},
		{"once", setUpMutex, onceRound, mutexFinish},
		{"election", setUpElection, electionRound, electionFinish},
	}
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func setUpOne(w *simulation) {
	q := w.addQueue("a", &w.recipe)
	q.resizes = []*resize{{limit: firstLimit, returned: 1, done: true}}
}

func setUpMutex(w *simulation) {
	for i := range 1 + w.random.IntN(2) {
		w.addQueue(name("m", i), &w.recipe)
	}
}

// one draws a queue.
func (k *worker) one() *queue { return k.w.queues[k.random.IntN(len(k.w.queues))] }

// mutex returns the mutex of a queue.
func (k *worker) mutex(q *queue) *mutex.Mutex {
	return mutex.NewWith(k.c.session, q.name, mutex.Options{
		Reentrant: k.w.recipe.name == "reentrant", Robust: q.robust, LockDelay: q.delay,
	})
}

// lock acquires a mutex, or tries to.
func (k *worker) lock(q *queue, try bool) *hold {
	m := k.mutex(q)
	plain := q.robust && k.chance(4) // as in a program that does not know of the ledger yet
	if plain {
		m = mutex.New(k.c.session, q.name)
	}
	want := m.Lock
	if try {
		want = m.TryLock
	}
	return k.acquire(wanted{queues: []*queue{q}, try: try, plain: plain, ends: 2}, want)
}

func mutexRound(k *worker) {
	q := k.one()
	if k.chance(5) {
		k.do(q)
		return
	}
	if hd := k.lock(q, k.chance(6)); hd != nil {
		k.keep(hd)
		k.release(hd)
	}
}

// do is a round in a function that the library calls.
func (k *worker) do(q *queue) {
	a := &attempt{k: k, called: k.w.Now(), ends: -1}
	var hd *hold
	err := k.mutex(q).Do(k.ctx, func(_ context.Context, h *session.Hold) error {
		hd = k.takes(a, wanted{queues: []*queue{q}}, h)
		k.sleep(0, 0)
		k.keep(hd)
		hd.released = true
		hd.back = k.w.Now()
		return nil
	})
	if hd == nil {
		k.w.report(k.name, func() { k.w.refused(a, wanted{}, err) })
		return
	}
	k.w.report(k.name, func() {
		if err == nil { // Do does not report whether the release is pending
			k.w.log(k.c, "released", k.name+" "+hd.name)
			hd.forget()
			return
		}
		k.w.unlocked(hd, hd.back, err, nil)
	})
	k.sleep(0, 0)
}

func mutexFinish(k *worker) {
	for _, q := range k.w.queues {
		k.release(k.acquire(wanted{queues: []*queue{q}}, k.mutex(q).Lock))
	}
}

func reentrantRound(k *worker) {
	q := k.one()
	hd := k.lock(q, k.chance(6))
	if hd == nil {
		return
	}
	k.keep(hd)
	if k.chance(4) {
		k.race(hd, k.mutex(q).Lock)
		return
	}
	k.nest(hd, k.mutex(q).Lock)
	k.release(hd)
}

// nest takes one more handle on a hold, and releases one of the two.
func (k *worker) nest(hd *hold, enter func(context.Context) (*session.Hold, error)) {
	outer := hd.h
	inner, err := enter(outer.Context())
	switch {
	case err != nil: // the hold was lost, and so was the place; or its context has ended
		if outer.Context().Err() == nil {
			k.w.report(k.name, func() { k.w.fail("S6", "%s cannot enter its hold: %v", k.name, err) })
		}
		return
	case inner.Token() != outer.Token(): // lost a moment ago: it joined and waited again
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

// race takes one more handle on a hold while another goroutine unlocks it, and releases it.
func (k *worker) race(hd *hold, enter func(context.Context) (*session.Hold, error)) {
	hd.released = true
	k.w.ended(k, hd)
	unlocked, after := make(chan struct{}), k.in(0, time.Millisecond)
	go func() { // ends when Unlock returns
		defer close(unlocked)
		k.c.sleep(k.name+" alongside", after)
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

func setUpRobust(w *simulation) {
	delay := time.Duration(0)
	if !w.chance(3) {
		delay = w.in(10*time.Millisecond, 400*time.Millisecond)
	}
	reborn := w.chance(3)
	if reborn {
		membackend.Engine(door.Key{}).NewLife(w.store, 0)
	}
	for i := range 1 + w.random.IntN(2) {
		q := w.addQueue(name("r", i), &w.recipe)
		q.robust, q.reborn, q.delay = true, reborn, delay
	}
}

func robustRound(k *worker) {
	if len(k.w.queues) > 1 && k.chance(3) {
		allRound(k)
		return
	}
	q := k.one()
	if hd := k.lock(q, k.chance(8)); hd != nil {
		k.keep(hd)
		k.release(hd)
	}
}

func setUpAll(w *simulation) {
	for i := range 2 + w.random.IntN(2) {
		w.addQueue(name("l", i), &w.recipe)
	}
}

// some draws several queues, in any order.
func (k *worker) some() (queues []*queue, locks []*mutex.Mutex) {
	n := 2 + k.random.IntN(len(k.w.queues)-1)
	for _, i := range k.random.Perm(len(k.w.queues))[:n] {
		queues = append(queues, k.w.queues[i])
		locks = append(locks, k.mutex(k.w.queues[i]))
	}
	return queues, locks
}

func allRound(k *worker) {
	if k.chance(4) && !k.w.queues[0].robust {
		mutexRound(k)
		return
	}
	queues, locks := k.some()
	try := k.chance(8)
	hd := k.acquire(wanted{queues: queues, try: try, ends: 2}, func(ctx context.Context) (*session.Hold, error) {
		if try {
			return mutex.TryLockAll(ctx, locks...)
		}
		return mutex.LockAll(ctx, locks...)
	})
	if hd != nil {
		k.keep(hd)
		k.release(hd)
	}
}

func allFinish(k *worker) {
	var locks []*mutex.Mutex
	for _, q := range k.w.queues {
		locks = append(locks, k.mutex(q))
	}
	k.release(k.acquire(wanted{queues: k.w.queues}, func(ctx context.Context) (*session.Hold, error) {
		return mutex.LockAll(ctx, locks...)
	}))
}

func readWriteRound(k *worker) {
	q := k.one()
	l := rwlock.New(k.c.session, q.name)
	as := wanted{queues: []*queue{q}, mode: driver.Shared, try: k.chance(6), ends: 2}
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
	k.release(hd)
}

// downgrade downgrades a writer. From the call on, readers may hold too.
func (k *worker) downgrade(l *rwlock.RWLock, hd *hold) {
	hd.mode = driver.Shared
	token := hd.h.Token()
	called := k.w.Now()
	ctx, cancel := driver.WithTimeout(k.ctx, k.c, time.Second)
	err := l.Downgrade(ctx, hd.h)
	cancel()
	k.w.report(k.name, func() { k.w.downgraded(hd, token, called, err) })
	k.sleep(0, 0)
	k.keep(hd)
}

func readWriteFinish(k *worker) {
	q := k.one()
	l := rwlock.New(k.c.session, q.name)
	k.release(k.acquire(wanted{queues: []*queue{q}, mode: driver.Exclusive}, l.Lock))
	k.release(k.acquire(wanted{queues: []*queue{q}, mode: driver.Shared}, l.RLock))
}

// The permits of a run.
const (
	firstLimit = 3
	mostLimit  = 5
)

func semaphoreRound(k *worker) {
	q := k.one()
	m := semaphore.NewWith(k.c.session, q.name, firstLimit, semaphore.Options{Follow: true, Slots: k.w.cfg.Seed%2 == 0})
	if k.chance(4) {
		// Some give up soon, and their outcome is unknown.
		ctx, cancel := driver.WithTimeout(k.ctx, k.c, k.in(0, 40*time.Millisecond)*time.Duration(1+24*k.random.IntN(2)))
		r := &resize{limit: 1 + k.random.Int64N(mostLimit), called: k.w.Now()}
		k.w.report(k.name, func() { q.resizes = append(q.resizes, r) })
		err := m.Resize(ctx, r.limit)
		cancel()
		k.w.report(k.name, func() { r.returned, r.done = k.w.Now(), err == nil })
		k.sleep(0, 100*time.Millisecond)
		return
	}
	n := 1 + k.random.Int64N(3)
	as := wanted{queues: []*queue{q}, mode: driver.Weighted, weight: n, try: k.chance(6), ends: 2}
	hd := k.acquire(as, func(ctx context.Context) (*session.Hold, error) {
		if as.try {
			return m.TryAcquire(ctx, n)
		}
		return m.Acquire(ctx, n)
	})
	if hd != nil {
		k.keep(hd)
		k.release(hd)
	}
}

func semaphoreFinish(k *worker) {
	q := k.one()
	m := semaphore.NewWith(k.c.session, q.name, firstLimit, semaphore.Options{Follow: true})
	hd := k.acquire(wanted{queues: []*queue{q}, mode: driver.Weighted, weight: 1}, func(ctx context.Context) (*session.Hold, error) {
		return m.Acquire(ctx, 1)
	})
	k.release(hd)
}

func setUpElection(w *simulation) {
	w.addQueue("e", &w.recipe)
	w.numbers = w.random.IntN(2) == 0
	// Each has a client of its own: the watches of two on one client would have the same
	// name, and their order would not be defined.
	for _, i := range w.random.Perm(len(w.clients))[:1+w.random.IntN(2)] {
		w.watch(w.clients[i])
	}
}

// rollOut draws the options of a candidate. Only one worker of a client has a generation: the watches of
// two would have the same name.
func (k *worker) rollOut() election.Options {
	if !k.w.numbers || slices.IndexFunc(k.w.workers, func(o *worker) bool { return o.c == k.c }) != slices.Index(k.w.workers, k) {
		return election.Options{}
	}
	return election.Options{
		Generation: int64(k.random.IntN(4)), Settle: k.in(-ttl/4, ttl/2),
		Next: func(ctx context.Context) { <-ctx.Done() },
	}
}

func electionRound(k *worker) {
	q := k.one()
	e := election.NewWith(k.c.session, q.name, k.rollOut())
	if k.chance(4) {
		k.lead(e, q)
		return
	}
	hd := k.acquire(wanted{queues: []*queue{q}, ends: 2}, func(ctx context.Context) (*session.Hold, error) {
		return e.Campaign(ctx, k.name)
	})
	if hd == nil {
		return
	}
	k.keep(hd)
	k.proclaim(e, hd, k.name+" says more")
	k.keep(hd)
	k.release(hd)
}

package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// The first choice: Do waits for its turn, runs the work, and releases the lock when
// the work has ended.
func ExampleMutex_Do() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil) // or etcdbackend.Open(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	m := mutex.New(s, "orders/settle")
	err = m.Do(ctx, func(ctx context.Context, h *session.Hold) error {
		// ctx ends when the lock is lost; the resource checks the token.
		fmt.Println("settling with token", h.Token())
		return ctx.Err()
	})
	fmt.Println("done:", err)
	// Output:
	// settling with token 1
	// done: <nil>
}

// Three replicas call Once with the time for which the job is. One of them runs the
// job, and the others return when it is done.
func ExampleMutex_Once() {
	ctx := context.Background()
	store := membackend.New()
	tick := time.Date(2026, 11, 20, 17, 34, 0, 0, time.UTC)
	for range 3 {
		s, err := store.Open(ctx, nil) // each replica has a session of its own
		if err != nil {
			log.Fatal(err)
		}
		defer s.Close()

		err = mutex.New(s, "cron/report").Once(ctx, tick.Format(time.RFC3339), func(context.Context, *session.Hold) error {
			fmt.Println("report of", tick.Format(time.TimeOnly))
			return nil
		})
		fmt.Println("done:", err)
	}
	// Output:
	// report of 17:34:00
	// done: <nil>
	// done: <nil>
	// done: <nil>
}

// Lock and Unlock by hand, with the path that a lost lock takes.
func ExampleMutex_Lock() {
	ctx := context.Background()
	store := membackend.New()
	s, err := store.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	h, err := mutex.New(s, "orders/settle").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store.Expire(store.Sessions()[0]) // an operator ends our session at the service

	<-h.Context().Done() // stop working: another client may hold from now on
	fmt.Println("still good for", h.Remaining())
	fmt.Println("lost:", errors.Is(context.Cause(h.Context()), session.ErrLost))
	fmt.Println("unlock reports it too:", errors.Is(h.Unlock(), session.ErrLost))
	// Output:
	// still good for 0s
	// lost: true
	// unlock reports it too: true
}

func ExampleMutex_TryLock() {
	ctx := context.Background()
	store := membackend.New()
	s, err := store.Open(ctx, &session.Options{Label: "nightly"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	h, err := mutex.New(s, "backup").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()

	_, err = mutex.New(s, "backup").TryLock(ctx)
	fmt.Println("not acquired:", errors.Is(err, session.ErrNotAcquired))
	var na *session.NotAcquiredError
	if errors.As(err, &na) {
		fmt.Println("held by", na.Holder.Label)
	}
	// Output:
	// not acquired: true
	// held by nightly
}

// A request that gives up leaves the queue, a moment after Lock has returned if the service
// is slow.
func ExampleMutex_Lock_timeout() {
	ctx := context.Background()
	store := membackend.New()
	s, err := store.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	m := mutex.New(s, "backup")
	h, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()

	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = m.Lock(short)
	fmt.Println(errors.Is(err, session.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true true
}

// Queue returns the entries in order: the holder first, then the waiters.
func ExampleMutex_Queue() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, &session.Options{Label: "worker 1"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	m := mutex.New(s, "backup")
	h, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()

	entries, err := m.Queue(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for place, e := range entries {
		fmt.Println(place, e.Label, e.Mode, "token", e.Token)
	}
	// Output:
	// 0 worker 1 exclusive token 1
}

// A reentrant lock can be acquired again with the hold's context.
func ExampleNewWith_reentrant() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	m := mutex.NewWith(s, "orders/settle", mutex.Options{Reentrant: true})
	err = m.Do(ctx, func(ctx context.Context, outer *session.Hold) error {
		return m.Do(ctx, func(_ context.Context, inner *session.Hold) error {
			fmt.Println("same token:", outer.Token() == inner.Token())
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// same token: true
	// <nil>
}

// Options are for what New does not do.
func ExampleNewWith() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	plain := mutex.New(s, "a")
	reentrant := mutex.NewWith(s, "b", mutex.Options{Reentrant: true})
	for _, m := range []*mutex.Mutex{plain, reentrant} {
		err := m.Do(ctx, func(ctx context.Context, _ *session.Hold) error {
			return m.Do(ctx, func(context.Context, *session.Hold) error { return nil })
		})
		fmt.Println(m.Name(), errors.Is(err, session.ErrReentrant))
	}
	// Output:
	// a true
	// b false
}

// A locker is a mutex.Mutex for code that takes nothing but a sync.Locker. Such code learns
// neither that its lock was lost nor its token, so prefer Do.
type locker struct {
	mu   sync.Mutex // after a loss: no Unlock releases the hold of another goroutine
	m    *mutex.Mutex
	hold *session.Hold
}

func (l *locker) Lock() {
	l.mu.Lock()
	hold, err := l.m.Lock(context.Background())
	if err != nil {
		panic(err) // the caller would go on as if it held the lock
	}
	l.hold = hold
}

func (l *locker) Unlock() {
	_ = l.hold.Unlock() // lost or pending: the caller cannot act on it
	l.mu.Unlock()
}

// For code that knows only sync.Locker, which cannot report a loss.
func Example_syncLocker() {
	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	changed := sync.NewCond(&locker{m: mutex.New(s, "orders/settle")})
	changed.L.Lock()
	fmt.Println("locked")
	changed.L.Unlock()
	// Output:
	// locked
}

package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// README.md and the pages in docs take their code from these examples, see
// TestEveryGoBlockOfThePagesCompiles in internal/house.

// open returns a store in memory and a session on it.
func open(ctx context.Context) (*membackend.Store, *session.Session) {
	store := membackend.New()
	s, err := store.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	return store, s
}

func settle(_ context.Context, t session.Token) error {
	fmt.Println("settling with a token:", t > 0)
	return nil
}

// Compiled and not run: it needs a ZooKeeper.
func Example_zooKeeper() {
	ctx := context.Background()

	s, err := zkbackend.Open(ctx, []string{"zk-1:2181", "zk-2:2181", "zk-3:2181"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}

func Example_memory() {
	ctx := context.Background()

	store := membackend.New()
	s, err := store.Open(ctx, nil)    // in memory; in virtual time under testing/synctest
	store.Expire(store.Sessions()[0]) // and your code meets a lost lock
	fmt.Println(err, s.Close())
	// Output: <nil> <nil>
}

func Example_mutex() {
	ctx := context.Background()
	_, s := open(ctx)
	defer s.Close()

	m := mutex.New(s, "orders/settle")
	err := m.Do(ctx, func(ctx context.Context, h *session.Hold) error {
		return settle(ctx, h.Token()) // ctx is cancelled if the lock is lost
	})
	if errors.Is(err, session.ErrLost) {
		fmt.Println("the next holder may have started already")
	}
	// Output:
	// settling with a token: true
}

func Example_severalLocks() {
	ctx := context.Background()
	_, s := open(ctx)
	defer s.Close()
	from, to := "ada", "bob"

	a, b := mutex.New(s, "account/"+from), mutex.New(s, "account/"+to)
	h, err := mutex.LockAll(ctx, a, b) // all or none; no deadlock, whatever the order
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock() // both, in one transaction
	err = transfer(h.Context(), h.Token())
	fmt.Println(h.Names(), err)
	// Output:
	// transfer with one token for both: 1
	// [account/ada account/bob] <nil>
}

func Example_severalLocksAndUnlock() {
	ctx := context.Background()
	_, s := open(ctx)
	defer s.Close()
	a, b := mutex.New(s, "account/ada"), mutex.New(s, "account/bob")

	h, err := mutex.LockAll(ctx, a, b) // all or none; no deadlock, whatever the order
	if err == nil {
		err = errors.Join(transfer(h.Context(), h.Token()), h.Unlock())
	}
	fmt.Println(err)
	// Output:
	// transfer with one token for both: 1
	// <nil>
}

func transfer(_ context.Context, t session.Token) error {
	fmt.Println("transfer with one token for both:", t)
	return nil
}

func Example_robustMutex() {
	ctx := context.Background()
	store, s := open(ctx)
	defer s.Close()
	repair := func(context.Context, session.Token) error { fmt.Println("repairing unfinished work"); return nil }
	dead, err := mutex.NewWith(s, "orders/settle", mutex.Options{Robust: true}).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store.Expire(store.Sessions()[0]) // its holder dies
	<-dead.Context().Done()

	m := mutex.NewWith(s, "orders/settle", mutex.Options{Robust: true}) // or LockDelay: time.Minute
	err = m.Do(ctx, func(ctx context.Context, h *session.Hold) error {
		if h.PreviousDied() { // true also if no request was waiting at that time
			if err := repair(ctx, h.Token()); err != nil {
				return err
			}
		}
		return settle(ctx, h.Token())
	})
	fmt.Println(err)
	// Output:
	// repairing unfinished work
	// settling with a token: true
	// <nil>
}

func Example_readersAndWriter() {
	ctx := context.Background()
	_, s := open(ctx)
	defer s.Close()
	read := func(context.Context, *session.Hold) error { fmt.Println("reading"); return nil }
	write := func(context.Context, *session.Hold) error { fmt.Println("writing"); return nil }

	rw := rwlock.New(s, "config")
	readErr := rw.RDo(ctx, read)  // many readers at once,
	writeErr := rw.Do(ctx, write) // or one writer
	fmt.Println(readErr, writeErr)
	// Output:
	// reading
	// writing
	// <nil> <nil>
}

func Example_downgrade() {
	ctx := context.Background()
	_, s := open(ctx)
	defer s.Close()
	config := 1
	change := func(context.Context, session.Token) error { config++; return nil }
	read := func(context.Context, session.Token) error { fmt.Println("config", config); return nil }

	rw := rwlock.New(s, "config")
	err := rw.Do(ctx, func(ctx context.Context, h *session.Hold) error {
		if err := change(ctx, h.Token()); err != nil {
			return err
		}
		if err := rw.Downgrade(ctx, h); err != nil { // readers enter; no writer can hold in between
			return err
		}
		return read(ctx, h.Token())
	})
	fmt.Println(err)
	// Output:
	// config 2
	// <nil>
}

func Example_semaphore() {
	ctx := context.Background()
	_, s := open(ctx)
	defer s.Close()

	train := func(context.Context) error { fmt.Println("training"); return nil }

	gpus := semaphore.New(s, "gpu", 8)
	err := gpus.Do(ctx, 3, func(ctx context.Context, _ *session.Hold) error {
		return train(ctx) // with 3 of 8 permits, all or none
	})
	fmt.Println(err)
	// Output:
	// training
	// <nil>
}

func Example_slots() {
	ctx := context.Background()
	_, s := open(ctx)
	defer s.Close()

	gpus := semaphore.NewWith(s, "gpu", 8, semaphore.Options{Slots: true, Follow: true})
	h, err := gpus.Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	fmt.Println("on gpu", h.Slot())
	err = gpus.Resize(ctx, 12) // stored at the service; clients with Follow accept it
	fmt.Println("resized:", err)
	// Output:
	// on gpu 0
	// resized: <nil>
}

func Example_election() {
	ctx, cancel := context.WithCancel(context.Background())
	_, s := open(ctx)
	defer s.Close()
	schedule := func(ctx context.Context, _ session.Token) error { <-ctx.Done(); return nil }
	addr := "10.0.0.7:8080"
	var watching sync.WaitGroup
	watching.Go(func() { watch(ctx, cancel, election.New(s, "scheduler")) })

	e := election.New(s, "scheduler")
	err := e.Run(ctx, addr, func(ctx context.Context, h *session.Hold) error {
		return schedule(ctx, h.Token()) // as the leader; ctx is cancelled if the leadership is lost
	})
	fmt.Println("stopped:", errors.Is(err, context.Canceled))
	watching.Wait()
	// Unordered output:
	// led by 10.0.0.7:8080
	// stopped: true
}

// watch ends the election when it has seen a leader.
func watch(ctx context.Context, end func(), e *election.Election) {
	show := func(l election.Leader, err error) {
		if err != nil {
			log.Fatal(err)
		}
		if !l.Vacant() {
			fmt.Println("led by", l.Value)
			end()
		}
	}
	for leader, err := range e.Observe(ctx) { // leader.Vacant() reports whether there is no leader
		show(leader, err)
	}
}

package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// Readers share the lock: each sees the other inside.
func ExampleRWLock_RDo() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil) // or etcdbackend.Open(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	rw := rwlock.New(s, "config")
	err = rw.RDo(ctx, func(context.Context, *session.Hold) error {
		other, err := rw.TryRLock(ctx) // as another process would
		if err != nil {
			return err
		}
		fmt.Println("two read, with tokens that rise")
		return other.Unlock()
	})
	fmt.Println("done:", err)
	// Output:
	// two read, with tokens that rise
	// done: <nil>
}

// A writer is alone. The resource checks its token.
func ExampleRWLock_Do() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	rw := rwlock.New(s, "config")
	err = rw.Do(ctx, func(ctx context.Context, h *session.Hold) error {
		_, err := rw.TryRLock(context.Background()) // as another process would
		fmt.Println("a reader must wait:", errors.Is(err, session.ErrNotAcquired))
		fmt.Println("writing with token", h.Token())
		return ctx.Err() // it ends when the lock is lost
	})
	fmt.Println("done:", err)
	// Output:
	// a reader must wait: true
	// writing with token 1
	// done: <nil>
}

// A writer goes on as a reader: no other writer can hold between its write and its reads.
func ExampleRWLock_Downgrade() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	rw := rwlock.New(s, "config")
	h, err := rw.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	fmt.Println(h.Mode(), "with token", h.Token())

	if err := rw.Downgrade(ctx, h); err != nil {
		log.Fatal(err) // write no more: readers may hold already
	}
	fmt.Println(h.Mode(), "with token", h.Token())
	other, err := rw.TryRLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Unlock()
	_, err = rw.TryLock(ctx)
	fmt.Println("readers can hold, writers cannot:", errors.Is(err, session.ErrNotAcquired))
	// Output:
	// exclusive with token 1
	// shared with token 1
	// readers can hold, writers cannot: true
}

// A writer that also reads can unlock the write handle first: the read handle goes on, in
// the same place.
func ExampleRWLock_RLock_underOwnLock() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	rw := rwlock.New(s, "config")
	w, err := rw.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	r, err := rw.RLock(w.Context()) // the context comes from the write hold
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("unlock:", w.Unlock())
	fmt.Println("reads on:", r.Remaining() > 0, r.Context().Err())

	entries, err := rw.Queue(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("in the queue:", len(entries), entries[0].Mode)
	fmt.Println("unlock:", r.Unlock())
	// Output:
	// unlock: <nil>
	// reads on: true <nil>
	// in the queue: 1 shared
	// unlock: <nil>
}

// What a lost lock does: the work stops when its context ends, and the result names the
// reason.
func ExampleRWLock_Do_lost() {
	ctx := context.Background()
	store := membackend.New()
	s, err := store.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	err = rwlock.New(s, "config").Do(ctx, func(ctx context.Context, h *session.Hold) error {
		store.Expire(h.SessionID()) // an operator ends our session at the service
		<-ctx.Done()                // stop working: another client may hold from now on
		fmt.Println("still good for", h.Remaining())
		return nil // even so, the result reports the loss
	})
	fmt.Println("lost:", errors.Is(err, session.ErrLost))
	// Output:
	// still good for 0s
	// lost: true
}

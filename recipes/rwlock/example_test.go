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

// A writer that goes on as a reader: nobody writes between what it wrote and what
// it reads then.
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
		log.Fatal(err) // write no more: readers may have been let in
	}
	fmt.Println(h.Mode(), "with token", h.Token())
	beside, err := rw.TryRLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer beside.Unlock()
	_, err = rw.TryLock(ctx)
	fmt.Println("readers come in, writers do not:", errors.Is(err, session.ErrNotAcquired))
	// Output:
	// exclusive with token 1
	// shared with token 1
	// readers come in, writers do not: true
}

// Who reads under its own write hold may give that back first: the reader goes on,
// in the same place.
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
	r, err := rw.RLock(w.Context()) // its context says who asks
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("unlock:", w.Unlock())
	fmt.Println("reads on:", r.Remaining() > 0, r.Context().Err())

	line, err := rw.Queue(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("in the line:", len(line), line[0].Mode)
	fmt.Println("unlock:", r.Unlock())
	// Output:
	// unlock: <nil>
	// reads on: true <nil>
	// in the line: 1 shared
	// unlock: <nil>
}

// The path that a lost lock takes: the work stops when its context ends, and the
// result says why.
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
		<-ctx.Done()                // stop working: somebody else may hold from now on
		fmt.Println("still good for", h.Remaining())
		return nil // even so, the result tells of the loss
	})
	fmt.Println("lost:", errors.Is(err, session.ErrLost))
	// Output:
	// still good for 0s
	// lost: true
}

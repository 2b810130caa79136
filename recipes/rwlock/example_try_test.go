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

// An RWLock is a name and a session.
func ExampleNew() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	rw := rwlock.New(s, "config")
	r, err := rw.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rw.Name(), "is held:", r.Mode())
	fmt.Println("unlock:", r.Unlock())
	// Output:
	// config is held: shared
	// unlock: <nil>
}

// Lock is for a writer that unlocks somewhere else.
func ExampleRWLock_Lock() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	h, err := rwlock.New(s, "config").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Mode(), "with token", h.Token())
	fmt.Println("unlock:", h.Unlock())
	// Output:
	// exclusive with token 1
	// unlock: <nil>
}

// A writer that does not wait for readers.
func ExampleRWLock_TryLock() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	rw := rwlock.New(s, "config")
	r, err := rw.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = rw.TryLock(ctx)
	fmt.Println("held by a reader:", errors.Is(err, session.ErrNotAcquired))
	fmt.Println("unlock:", r.Unlock())
	// Output:
	// held by a reader: true
	// unlock: <nil>
}

// A reader that does not wait for a writer.
func ExampleRWLock_TryRLock() {
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
	_, err = rw.TryRLock(ctx)
	fmt.Println("held by a writer:", errors.Is(err, session.ErrNotAcquired))
	fmt.Println("unlock:", w.Unlock())
	// Output:
	// held by a writer: true
	// unlock: <nil>
}

// TryDo writes if there is no holder.
func ExampleRWLock_TryDo() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	err = rwlock.New(s, "config").TryDo(ctx, func(_ context.Context, h *session.Hold) error {
		fmt.Println("writing with token", h.Token())
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// writing with token 1
	// done: <nil>
}

// TryRDo reads unless a writer holds.
func ExampleRWLock_TryRDo() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	err = rwlock.New(s, "config").TryRDo(ctx, func(_ context.Context, h *session.Hold) error {
		fmt.Println("reading:", h.Mode())
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// reading: shared
	// done: <nil>
}

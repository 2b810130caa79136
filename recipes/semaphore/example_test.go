package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// The first choice: Do waits for its permits, runs the work, and releases them when
// the work has ended.
func ExampleSemaphore_Do() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil) // or etcdbackend.Open(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	gpus := semaphore.New(s, "gpu", 8)
	err = gpus.Do(ctx, 3, func(ctx context.Context, _ *session.Hold) error {
		// ctx ends when the permits are lost.
		fmt.Println("training on three of eight")
		return ctx.Err()
	})
	fmt.Println("done:", err)
	// Output:
	// training on three of eight
	// done: <nil>
}

// With slots, each hold has a number that no other live hold has: here it selects one of
// the machines.
func ExampleSemaphore_Acquire_slots() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	machines := []string{"anna", "berta", "clara"}
	m := semaphore.NewWith(s, "machines", int64(len(machines)), semaphore.Options{Slots: true})
	var holds []*session.Hold
	for range 2 {
		h, err := m.Acquire(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(machines[h.Slot()])
		holds = append(holds, h)
	}
	if err := holds[0].Unlock(); err != nil {
		log.Fatal(err)
	}
	h, err := m.Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(machines[h.Slot()], "again")
	h.Unlock()
	holds[1].Unlock()
	// Output:
	// anna
	// berta
	// anna again
}

func ExampleSemaphore_TryAcquire() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, &session.Options{Label: "nightly"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	gpus := semaphore.New(s, "gpu", 8)
	h, err := gpus.Acquire(ctx, 6)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	_, err = gpus.TryAcquire(ctx, 3)
	fmt.Println("three are free:", !errors.Is(err, session.ErrNotAcquired))
	h2, err := gpus.TryAcquire(ctx, 2)
	fmt.Println("two are free:", err == nil)
	h2.Unlock()
	// Output:
	// three are free: false
	// two are free: true
}

// The service stores the limit. Programs that follow use a new limit; others get an error
// that contains it.
func ExampleSemaphore_Resize() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	gpus := semaphore.NewWith(s, "gpu", 8, semaphore.Options{Follow: true})
	h, err := gpus.Acquire(ctx, 8)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	if err := gpus.Resize(ctx, 12); err != nil { // four more: waiters that they suffice for are granted
		log.Fatal(err)
	}
	more, err := gpus.Acquire(ctx, 4)
	if err != nil {
		log.Fatal(err)
	}
	defer more.Unlock()

	_, err = semaphore.New(s, "gpu", 8).Acquire(ctx, 1) // the old version of the program
	var mismatch *rule.LimitError
	if errors.As(err, &mismatch) {
		fmt.Printf("there are %d, and it expects %d\n", mismatch.Limit, mismatch.Asked)
	}
	// Output:
	// there are 12, and it expects 8
}

// Queue returns the entries in order: holders first, then the waiters.
func ExampleSemaphore_Queue() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, &session.Options{Label: "worker 1"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	gpus := semaphore.New(s, "gpu", 8)
	for _, n := range []int64{3, 4} {
		h, err := gpus.Acquire(ctx, n)
		if err != nil {
			log.Fatal(err)
		}
		defer h.Unlock()
	}
	entries, err := gpus.Queue(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		fmt.Println(e.Label, "has", e.Weight)
	}
	// Output:
	// worker 1 has 3
	// worker 1 has 4
}

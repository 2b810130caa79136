package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// host stands for a library that locks by name around the caller's work.
type host struct {
	locker interface {
		Lock(ctx context.Context, name string) error
		Unlock(ctx context.Context, name string) error
	}
}

func (h host) obtain(ctx context.Context, name string, work func()) error {
	err := h.locker.Lock(ctx, name)
	if err != nil {
		return err
	}
	work()
	return h.locker.Unlock(ctx, name)
}

// A host that has no place for a hold gets a Named. Its work asks for the hold by the name.
func ExampleNewNamed() {
	ctx := context.Background()
	store := membackend.New()
	s, err := store.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	named := mutex.NewNamed(func(name string) *mutex.Mutex { return mutex.New(s, "certs/"+name) })
	certs := host{locker: named} // it calls named.Lock and named.Unlock around the work
	err = certs.obtain(ctx, "example.com", func() {
		h, _ := named.Hold("example.com")
		fmt.Println("obtaining with token", h.Token())
	})
	fmt.Println("done:", err)

	err = certs.obtain(ctx, "example.com", func() {
		h, _ := named.Hold("example.com")
		store.Expire(store.Sessions()[0]) // an operator ends our session at the service
		<-h.Context().Done()              // stop working
	})
	fmt.Println("lost:", errors.Is(err, session.ErrLost))
	// Output:
	// obtaining with token 1
	// done: <nil>
	// lost: true
}

package waits_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"runtime/pprof"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry/waits"
)

func ExampleNew() {
	ctx := context.Background()
	table := waits.New()
	s, err := membackend.New().Open(ctx, &session.Options{Hooks: table.Hooks()})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	mux := http.NewServeMux()
	mux.Handle("/debug/fairlock/waits", table)

	err = mutex.New(s, "backup").Do(ctx, func(context.Context, *session.Hold) error { return nil })
	fmt.Println(err)
	// Output: <nil>
}

// Labels around the call show in the profile of all goroutines for which lock a goroutine
// waits. Afterwards the goroutine has the labels of ctx again.
func ExampleTable() {
	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	lock := func(ctx context.Context, m *mutex.Mutex) (h *session.Hold, err error) {
		pprof.Do(ctx, pprof.Labels("lock", m.Name(), "kind", "mutex"), func(ctx context.Context) { h, err = m.Lock(ctx) })
		return h, err
	}

	h, err := lock(context.Background(), mutex.New(s, "backup"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Unlock())
	// Output: <nil>
}

package pages

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry/health"
	"github.com/fairlock/fairlock/telemetry/waits"
)

// get returns the status of an answer.
func get(h http.Handler, path string) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w.Code
}

// Probes of a program that opens its session while it already serves.
func Example_health() {
	mux := http.NewServeMux()
	probes := health.New()
	mux.Handle("/readyz", probes.Ready())
	mux.Handle("/livez", probes.Live())
	fmt.Println("ready", get(mux, "/readyz"), "live", get(mux, "/livez"))

	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	probes.Add(s)
	fmt.Println("ready", get(mux, "/readyz"), "live", get(mux, "/livez"))

	_ = s.Close()
	fmt.Println("ready", get(mux, "/readyz"), "live", get(mux, "/livez"))
	// Output:
	// ready 503 live 200
	// ready 200 live 200
	// ready 503 live 503
}

// The page of the requests that wait.
func Example_waits() {
	ctx := context.Background()
	mux := http.NewServeMux()
	table := waits.New()
	s, err := membackend.New().Open(ctx, &session.Options{Hooks: table.Hooks()})
	mux.Handle("/debug/fairlock/waits", table)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	err = mutex.New(s, "backup").Do(ctx, func(context.Context, *session.Hold) error { return nil })
	fmt.Println(err, get(mux, "/debug/fairlock/waits"))
	// Output: <nil> 200
}

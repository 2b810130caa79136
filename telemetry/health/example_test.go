package health_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/telemetry/health"
)

// The probes are served before the session is opened.
func ExampleNew() {
	probes := health.New()
	mux := http.NewServeMux()
	mux.Handle("/readyz", probes.Ready())
	mux.Handle("/livez", probes.Live())
	status := func(path string) int {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		return w.Code
	}
	fmt.Println("ready", status("/readyz"), "live", status("/livez"))

	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	probes.Add(s)
	fmt.Println("ready", status("/readyz"), "live", status("/livez"))
	// Output:
	// ready 503 live 200
	// ready 200 live 200
}

package prometheus_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
	"github.com/fairlock/fairlock/telemetry/prometheus"
)

func nothing(context.Context, *session.Hold) error { return nil }

func ExampleNew() {
	metrics := prometheus.New(&telemetry.Options{
		Name: func(lock string) string { // "orders" for "orders/4711"
			kind, _, _ := strings.Cut(lock, "/")
			return kind
		},
	})
	registry := client.NewRegistry()
	registry.MustRegister(metrics)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{}) // for /metrics

	ctx := context.Background()
	s, err := membackend.New().Open(ctx, &session.Options{Hooks: metrics.Hooks()})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := mutex.New(s, "orders/4711").Do(ctx, nothing); err != nil {
		fmt.Println(err)
	}
	if err := s.Close(); err != nil {
		fmt.Println(err)
	}
	page := httptest.NewRecorder()
	handler.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "fairlock_acquire_duration_seconds_count") {
			fmt.Print(line)
		}
	}
	// Output:
	// fairlock_acquire_duration_seconds_count{kind="mutex",lock="orders",mode="exclusive",outcome="granted"} 1
}

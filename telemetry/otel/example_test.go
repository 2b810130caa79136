package otel_test

import (
	"context"
	"fmt"

	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry/otel"
)

func ExampleHooks() {
	ctx := context.Background()
	exported, reader := tracetest.NewInMemoryExporter(), metricsdk.NewManualReader() // exporters of OTLP, in a program
	hooks, err := otel.Hooks(&otel.Options{
		TracerProvider: tracesdk.NewTracerProvider(tracesdk.WithSyncer(exported)),
		MeterProvider:  metricsdk.NewMeterProvider(metricsdk.WithReader(reader)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := membackend.New().Open(ctx, &session.Options{Hooks: hooks})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = mutex.New(s, "orders").Do(ctx, func(context.Context, *session.Hold) error { return nil })
	fmt.Println(err, s.Close())

	for _, span := range exported.GetSpans() {
		fmt.Println("span", span.Name)
	}
	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &metrics); err != nil {
		fmt.Println(err)
	}
	for _, m := range metrics.ScopeMetrics[0].Metrics {
		fmt.Println("metric", m.Name)
	}
	// Output:
	// <nil> <nil>
	// span fairlock.acquire
	// span fairlock.hold
	// span fairlock.lock
	// metric fairlock.acquire.duration
	// metric fairlock.hold.duration
	// metric fairlock.waiters
	// metric fairlock.holds
	// metric fairlock.holds.lost
	// metric fairlock.rejoins
	// metric fairlock.sessions
	// metric fairlock.sessions.lost
}

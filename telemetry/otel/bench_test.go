package otel_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry/otel"
)

// BenchmarkHooks measures the hooks of one request that is granted at once: what they take
// in the goroutine of its caller, and in that of the Session.
func BenchmarkHooks(b *testing.B) {
	traces, metrics := tracesdk.NewTracerProvider(), metricsdk.NewMeterProvider(metricsdk.WithReader(metricsdk.NewManualReader()))
	for _, c := range []struct {
		name string
		opts otel.Options
	}{
		{"metrics", otel.Options{TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metrics}},
		{"traces", otel.Options{TracerProvider: traces, MeterProvider: metricnoop.NewMeterProvider()}},
	} {
		hooks, err := otel.Hooks(&c.opts)
		require.NoError(b, err)
		for _, all := range []bool{false, true} {
			b.Run(map[bool]string{false: c.name + "/caller", true: c.name + "/all"}[all], func(b *testing.B) {
				e := session.Event{At: time.Now(), Name: "orders", Kind: "mutex", Mode: session.Exclusive}
				b.ReportAllocs()
				for b.Loop() {
					ctx := hooks.Started(context.Background(), e)
					if hooks.Trace != nil {
						hooks.Trace(ctx)
					}
					if !all {
						continue
					}
					e := e
					e.Outcome, e.Session, e.Token = session.OutcomeGranted, "s", 7
					if hooks.Joined != nil {
						hooks.Joined(ctx, e)
					}
					hooks.Ended(ctx, e)
					hooks.Released(ctx, e)
				}
			})
		}
	}
}

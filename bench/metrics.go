package main

import (
	"context"
	"errors"

	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry/otel"
	"github.com/fairlock/fairlock/telemetry/prometheus"
	"github.com/fairlock/fairlock/telemetry/waits"
)

// metricObserved is the time of a cycle, divided by the time without hooks in the same round.
const metricObserved = "time of lock + unlock : without hooks"

// observed returns contestants of ours with hooks: of a collector for Prometheus; of OpenTelemetry
// with metrics and with traces of one request in a hundred, or of each; and of the table of waits,
// which takes the stack of each request.
func observed() []stand.Contestant {
	return []stand.Contestant{
		{Name: "fairlock, Prometheus", Use: "metrics", Ours: true, Alone: true},
		{Name: "fairlock, OpenTelemetry", Use: "metrics, 1 trace in 100", Ours: true, Alone: true},
		{Name: "fairlock, all traces", Use: "metrics and traces", Ours: true, Alone: true},
		{Name: "fairlock, waits", Use: "stacks", Ours: true, Alone: true},
	}
}

// runMetrics measures what hooks cost the caller of a lock without contention, as in runAlone. An
// earlier commit may have no such hooks.
func runMetrics(ctx context.Context, b *bench) (err error) {
	if b.old != nil {
		b.log("  left out: it compares the present code with itself")
		return nil
	}
	values := metricsdk.NewMeterProvider(metricsdk.WithReader(metricsdk.NewManualReader()))
	some := tracesdk.NewTracerProvider(tracesdk.WithBatcher(dropSpans{}), tracesdk.WithSampler(tracesdk.TraceIDRatioBased(0.01)))
	all := tracesdk.NewTracerProvider(tracesdk.WithBatcher(dropSpans{}))
	someTraced, err := otel.Hooks(&otel.Options{TracerProvider: some, MeterProvider: values})
	if err != nil {
		return err
	}
	allTraced, err := otel.Hooks(&otel.Options{TracerProvider: all, MeterProvider: values})
	if err != nil {
		return err
	}
	counted, stacks := prometheus.New(nil).Hooks(), waits.New().Hooks()
	cs := append([]stand.Contestant{b.contestant(stand.Ours)}, observed()...)
	for i, hooks := range []*session.Hooks{&counted, &someTraced, &allTraced, &stacks} {
		cs[i+1].Hooks = hooks
	}
	defer func() { err = errors.Join(err, some.Shutdown(ctx), all.Shutdown(ctx), values.Shutdown(ctx)) }()
	for _, kind := range b.plan.on(b.plan.metrics.clusters) {
		err := b.onServers(ctx, setting{Kind: kind}, func(s *site) error {
			for range b.plan.rounds {
				if err := b.observedRound(ctx, s, kind, cs); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.logMedians(key{Scenario: "metrics", Cluster: kind, Size: 1, Metric: metricObserved}, cs)
	}
	return nil
}

// observedRound measures one round. The first contestant is the one without hooks.
func (b *bench) observedRound(ctx context.Context, s *site, kind stand.Kind, cs []stand.Contestant) (err error) {
	locks, err := b.ownLocks(ctx, s, cs, "metrics")
	defer func() { err = errors.Join(err, closeAll(ctx, locks)) }()
	if err != nil {
		return err
	}
	all, err := inTurns(ctx, locks, b.plan.metrics.blocks, b.plan.metrics.cycles)
	if err != nil {
		return err
	}
	without := median(toMicros(all[0].Took))
	for i, c := range cs {
		took := median(toMicros(all[i].Took))
		k := key{Scenario: "metrics", Cluster: kind, Size: 1, Contestant: c.Name, Metric: metricCycle}
		b.record.add(k, micros, took)
		if c.Hooks != nil {
			k.Metric = metricObserved
			b.record.add(k, count, took/without)
		}
	}
	return nil
}

// dropSpans is an exporter that drops all spans.
type dropSpans struct{}

// ExportSpans implements tracesdk.SpanExporter.
func (dropSpans) ExportSpans(context.Context, []tracesdk.ReadOnlySpan) error { return nil }

// Shutdown implements tracesdk.SpanExporter.
func (dropSpans) Shutdown(context.Context) error { return nil }

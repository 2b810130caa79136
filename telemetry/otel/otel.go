// Package otel brings the metrics of package telemetry, and traces of requests and holds,
// to OpenTelemetry. It is a module of its own, so that only programs that want it depend
// on OpenTelemetry.
//
//	hooks, err := otel.Hooks(nil)
//	…
//	s, err := etcdbackend.Open(ctx, client, &etcdbackend.Options{
//		Session: session.Options{Hooks: hooks},
//	})
//
// # Metrics
//
// Names, units, attributes and buckets are those of telemetry.Metrics. Collecting them
// sends nothing to the service.
//
// # Traces
//
// Each request has a span "fairlock.lock", from its start to its refusal or to the end of
// its hold. It is a child of the span in the caller's context, and the current span in
// Hold.Context, so what the work does under the lock appears below it. It has a child
// "fairlock.acquire", from the start of the request to its outcome; if it was granted, also
// a child "fairlock.hold", from the grant to the release or loss. They have the attributes of the
// metrics, with the name of the lock as it is; "fairlock.hold" also has the fencing token.
//
// What happens while a request waits is an event of "fairlock.acquire": its place in the
// queue, and that it had to rejoin. If the request gives up, "fairlock.acquire" has a link
// to the span "fairlock.lock" of the holder, also if that is of another process: each entry
// at the service carries the trace context of its span, in W3C's form, if that is sampled. A
// granted request has no link: that would cost it a read.
//
// A request that gave up or was refused, and a hold that was lost, set the status of
// their spans to an error, and record it. A Try that finds the lock taken is no error.
// Neither is a release that is pending; it is recorded.
package otel

import (
	"fmt"

	api "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
)

// scope is the name of the instrumentation.
const scope = "github.com/fairlock/fairlock/telemetry/otel"

// Options are the options of Hooks. The zero value is ready to use.
type Options struct {
	// TracerProvider provides the tracer. nil means the global one, as of the call of
	// Hooks. One of package go.opentelemetry.io/otel/trace/noop turns traces off.
	TracerProvider trace.TracerProvider

	// MeterProvider provides the meter. nil means the global one, as of the call of
	// Hooks. One of package go.opentelemetry.io/otel/metric/noop turns metrics off.
	MeterProvider metric.MeterProvider

	// Names is the rule for the names of locks in metrics. Spans have the names as they
	// are, up to 512 bytes, without what cannot be printed.
	Names telemetry.Options
}

// Hooks returns hooks for session.Options. They may be used for several Sessions, also at
// once; call Hooks once for a program. telemetry.Join adds other hooks. It returns an
// error if the meter cannot make an instrument. A nil o means the defaults of Options.
//
// Each request keeps its spans in the context that Started derives, so in a chain of
// locks where each is acquired with the Context of the hold before, the spans stay in
// memory until the end of the chain; see session.Hooks.
func Hooks(o *Options) (session.Hooks, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.TracerProvider == nil {
		opts.TracerProvider = api.GetTracerProvider()
	}
	if opts.MeterProvider == nil {
		opts.MeterProvider = api.GetMeterProvider()
	}
	r, err := newRecorder(opts.MeterProvider.Meter(scope))
	if err != nil {
		return session.Hooks{}, fmt.Errorf("otel: %w", err)
	}
	metrics := telemetry.Hooks(r, &opts.Names)
	if r.err != nil {
		return session.Hooks{}, fmt.Errorf("otel: %w", r.err)
	}
	if _, off := opts.TracerProvider.(noop.TracerProvider); off {
		return metrics, nil // Hooks.Trace could cost a read
	}
	// Spans come first: the metrics' exemplars refer to them.
	return telemetry.Join(newTracing(opts.TracerProvider.Tracer(scope)).hooks(), metrics), nil
}

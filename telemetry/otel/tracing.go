package otel

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
)

// What spans have beyond the attributes of the metrics.
const (
	attrWeight = "fairlock.weight" // permits, of a semaphore's request
	attrAhead  = "fairlock.ahead"  // entries ahead
	attrToken  = "fairlock.token"  // the fencing token; of a link, that of the hold waited for
)

// tracing makes spans of requests and holds.
type tracing struct {
	tracer trace.Tracer
	w3c    propagation.TraceContext
}

func newTracing(t trace.Tracer) *tracing { return &tracing{tracer: t} }

func (t *tracing) hooks() session.Hooks {
	return session.Hooks{
		Started: t.started, Trace: t.trace, Joined: t.joined, Position: t.position, Rejoined: t.rejoined, Ended: t.ended,
		Released: t.released, Lost: t.lost,
	}
}

// spans are those of a request, in its context. The hooks of a request are called one after
// the other, so they need no mutex; Trace may be called at the same time, and reads only
// lock, which does not change.
type spans struct {
	start   time.Time
	lock    trace.Span
	acquire trace.Span // nil until it is needed: started does not delay the caller for it
	hold    trace.Span // nil unless it was granted
	common  trace.SpanStartEventOption
}

// spansKey is the key of the *spans of a request in its context.
type spansKey struct{ of *tracing }

// of returns the spans of a request, nil if they are not recorded: because the sampler has
// left out the first, or because another hook has lost the values of the context.
func (t *tracing) of(ctx context.Context) *spans {
	if q, ok := ctx.Value(spansKey{t}).(*spans); ok && q.lock.IsRecording() {
		return q
	}
	return nil
}

// waiting returns the span of a request's wait.
func (t *tracing) waiting(ctx context.Context, q *spans) trace.Span {
	if q.acquire == nil {
		_, q.acquire = t.child(ctx, q, "fairlock.acquire", q.start)
	}
	return q.acquire
}

// child starts a span below that of the lock.
func (t *tracing) child(ctx context.Context, q *spans, name string, at time.Time) (context.Context, trace.Span) {
	return t.tracer.Start(trace.ContextWithSpan(ctx, q.lock), name, trace.WithTimestamp(at), q.common)
}

func (t *tracing) started(ctx context.Context, e session.Event) context.Context {
	common := []attribute.KeyValue{
		attribute.String(string(telemetry.LockName), telemetry.Printable(e.Name)),
		attribute.String(string(telemetry.LockKind), e.Kind),
		attribute.String(string(telemetry.LockMode), string(e.Mode)),
	}
	if e.Weight != 0 {
		common = append(common, attribute.Int64(attrWeight, e.Weight))
	}
	q := &spans{start: e.At, common: trace.WithAttributes(common...)}
	ctx, q.lock = t.tracer.Start(ctx, "fairlock.lock", trace.WithTimestamp(e.At), q.common)
	return context.WithValue(ctx, spansKey{t}, q)
}

// trace is Hooks.Trace: a traceparent in version 00 of W3C's form, put together here because
// the caller waits for it.
func (t *tracing) trace(ctx context.Context) string {
	q := t.of(ctx)
	if q == nil || !q.lock.SpanContext().IsSampled() {
		return "" // nothing could follow a link to it
	}
	sc := q.lock.SpanContext()
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"
}

func (t *tracing) joined(ctx context.Context, e session.Event) { t.place(ctx, "fairlock.joined", e) }

func (t *tracing) position(ctx context.Context, e session.Event) {
	t.place(ctx, "fairlock.position", e)
}

// place adds an event with the place in the queue.
func (t *tracing) place(ctx context.Context, name string, e session.Event) {
	q := t.of(ctx)
	if q != nil {
		t.waiting(ctx, q).AddEvent(name, trace.WithTimestamp(e.At), trace.WithAttributes(attribute.Int(attrAhead, e.Ahead)))
	}
}

func (t *tracing) rejoined(ctx context.Context, e session.Event) {
	q := t.of(ctx)
	if q != nil {
		span := t.waiting(ctx, q)
		span.AddEvent("fairlock.rejoined", trace.WithTimestamp(e.At))
		note(span, e.At, e.Err)
	}
}

func (t *tracing) ended(ctx context.Context, e session.Event) {
	q := t.of(ctx)
	if q == nil {
		return
	}
	acquire := t.waiting(ctx, q)
	if e.WaitedFor != nil {
		t.link(ctx, acquire, e.WaitedFor)
	}
	outcome := attribute.String(string(telemetry.Outcome), strings.ReplaceAll(string(e.Outcome), " ", "_"))
	failed := e.Outcome == session.OutcomeGaveUp || e.Outcome == session.OutcomeRefused
	for _, span := range []trace.Span{acquire, q.lock} {
		span.SetAttributes(outcome)
		if failed {
			fail(span, e.At, e.Err)
		}
	}
	acquire.End(trace.WithTimestamp(e.At))
	if e.Outcome != session.OutcomeGranted {
		q.lock.End(trace.WithTimestamp(e.At))
		return
	}
	_, q.hold = t.child(ctx, q, "fairlock.hold", e.At)
	q.hold.SetAttributes(attribute.Int64(attrToken, int64(e.Token)))
}

// link links a span to that of the entry that was waited for.
func (t *tracing) link(ctx context.Context, span trace.Span, to *session.Entry) {
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // else Extract would return the span of the request
	ctx = t.w3c.Extract(ctx, propagation.MapCarrier{"traceparent": to.Trace})
	sc := trace.SpanContextFromContext(ctx)
	if sc.IsValid() {
		span.AddLink(trace.Link{SpanContext: sc, Attributes: []attribute.KeyValue{attribute.Int64(attrToken, int64(to.Token))}})
	}
}

func (t *tracing) released(ctx context.Context, e session.Event) {
	end := telemetry.EndReleased
	if e.Err != nil {
		end = telemetry.EndPending
	}
	t.over(ctx, e, end, note)
}

func (t *tracing) lost(ctx context.Context, e session.Event) {
	q := t.of(ctx)
	if lost, ok := errors.AsType[*session.LostError](e.Err); ok && q != nil && q.hold != nil {
		q.hold.SetAttributes(attribute.String(string(telemetry.Reason), string(lost.Reason)))
	}
	t.over(ctx, e, telemetry.EndLost, fail)
}

// over ends the spans of a hold. with notes the error of its end, if there is one.
func (t *tracing) over(ctx context.Context, e session.Event, end string, with func(trace.Span, time.Time, error)) {
	q := t.of(ctx)
	if q == nil {
		return
	}
	for _, span := range []trace.Span{q.hold, q.lock} {
		if span == nil {
			continue
		}
		span.SetAttributes(attribute.String(string(telemetry.HoldEnd), end))
		with(span, e.At, e.Err)
		span.End(trace.WithTimestamp(e.At))
	}
}

// note records an error, unless it is nil. Exporters refuse a whole batch of spans for text
// that is not valid UTF-8, which may come from a service.
func note(span trace.Span, at time.Time, err error) {
	if err != nil && !utf8.ValidString(err.Error()) {
		err = errors.New(textOf(err))
	}
	span.RecordError(err, trace.WithTimestamp(at))
}

// fail records an error, and sets the status.
func fail(span trace.Span, at time.Time, err error) {
	note(span, at, err)
	if err != nil {
		span.SetStatus(codes.Error, textOf(err))
	}
}

// textOf returns the text of an error as valid UTF-8.
func textOf(err error) string { return strings.ToValidUTF8(err.Error(), "\ufffd") }

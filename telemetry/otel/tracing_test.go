package otel_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry/otel"
)

// process is a process with a Session and traces of its own.
type process struct {
	t        *testing.T
	net      *membackend.Client
	s        *session.Session
	provider *tracesdk.TracerProvider
	exported *tracetest.InMemoryExporter
}

func newProcess(t *testing.T, st *membackend.Store, sampler tracesdk.Sampler) *process {
	p := &process{t: t, net: st.NewClient(), exported: tracetest.NewInMemoryExporter()}
	p.provider = tracesdk.NewTracerProvider(tracesdk.WithSyncer(p.exported), tracesdk.WithSampler(sampler))
	hooks, err := otel.Hooks(&otel.Options{TracerProvider: p.provider, MeterProvider: metricnoop.NewMeterProvider()})
	require.NoError(t, err)
	p.s, err = p.net.Open(t.Context(), &session.Options{Hooks: hooks, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return p
}

func (p *process) lock(name string) *session.Hold {
	h, err := mutex.New(p.s, name).Lock(p.t.Context())
	require.NoError(p.t, err)
	return h
}

// span returns the newest span of a name that has ended.
func (p *process) span(name string) tracetest.SpanStub {
	p.t.Helper()
	synctest.Wait()
	all := p.exported.GetSpans()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Name == name {
			return all[i]
		}
	}
	require.Fail(p.t, "no span "+name)
	return tracetest.SpanStub{}
}

// attributes returns those of a span by their names.
func attributes(s tracetest.SpanStub) map[string]any {
	all := map[string]any{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

// events returns the names of the events of a span.
func events(s tracetest.SpanStub) (names []string) {
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	return names
}

// traced runs a test with a service in memory and a process on it, in virtual time.
func traced(t *testing.T, f func(p *process, st *membackend.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		p := newProcess(t, st, tracesdk.AlwaysSample())
		f(p, st)
		require.NoError(t, p.s.Close())
	})
}

func TestSpansOfARequestAndItsHold(t *testing.T) {
	traced(t, func(p *process, _ *membackend.Store) {
		ctx, caller := p.provider.Tracer("test").Start(p.t.Context(), "caller")
		began := time.Now()
		h, err := mutex.New(p.s, "orders").Lock(ctx)
		require.NoError(p.t, err)
		_, work := p.provider.Tracer("test").Start(h.Context(), "work")
		time.Sleep(2 * time.Second)
		work.End()
		require.NoError(p.t, h.Unlock())
		caller.End()

		lock, acquire, hold := p.span("fairlock.lock"), p.span("fairlock.acquire"), p.span("fairlock.hold")
		assert.Equal(p.t, caller.SpanContext().SpanID(), lock.Parent.SpanID())
		for _, child := range []tracetest.SpanStub{acquire, hold, p.span("work")} {
			assert.Equal(p.t, lock.SpanContext.SpanID(), child.Parent.SpanID(), child.Name)
			assert.Equal(p.t, caller.SpanContext().TraceID(), child.SpanContext.TraceID(), child.Name)
		}
		for _, s := range []tracetest.SpanStub{lock, acquire, hold} {
			assert.Equal(p.t, codes.Unset, s.Status.Code, s.Name)
		}
		assert.Equal(p.t, []time.Time{began, began.Add(2 * time.Second)}, []time.Time{lock.StartTime, lock.EndTime})
		assert.Equal(p.t, []time.Time{began, began}, []time.Time{acquire.StartTime, acquire.EndTime})
		assert.Equal(p.t, []time.Time{began, began.Add(2 * time.Second)}, []time.Time{hold.StartTime, hold.EndTime})
		common := map[string]any{"fairlock.lock.name": "orders", "fairlock.lock.kind": "mutex", "fairlock.lock.mode": "exclusive"}
		with := func(more map[string]any) map[string]any {
			maps.Copy(more, common)
			return more
		}
		assert.Equal(p.t, with(map[string]any{"fairlock.outcome": "granted"}), attributes(acquire))
		assert.Equal(p.t, with(map[string]any{"fairlock.outcome": "granted", "fairlock.hold.end": "released"}), attributes(lock))
		assert.Equal(p.t, with(map[string]any{"fairlock.token": int64(h.Token()), "fairlock.hold.end": "released"}), attributes(hold))
		assert.Equal(p.t, []string{"fairlock.joined"}, events(acquire))
	})
}

// TestARequestThatGaveUpIsLinkedToTheHoldOfAnotherProcess: the trace context goes through the
// entry at the service.
func TestARequestThatGaveUpIsLinkedToTheHoldOfAnotherProcess(t *testing.T) {
	traced(t, func(p *process, st *membackend.Store) {
		other := newProcess(p.t, st, tracesdk.AlwaysSample())
		held := other.lock("n")
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
		defer cancel()
		_, err := mutex.New(p.s, "n").Lock(ctx)
		require.ErrorIs(p.t, err, session.ErrNotAcquired)
		require.NoError(p.t, held.Unlock())

		acquire, lock := p.span("fairlock.acquire"), other.span("fairlock.lock")
		if assert.Len(p.t, acquire.Links, 1) {
			link := acquire.Links[0]
			assert.Equal(p.t, lock.SpanContext.SpanID(), link.SpanContext.SpanID())
			assert.Equal(p.t, lock.SpanContext.TraceID(), link.SpanContext.TraceID())
			assert.True(p.t, link.SpanContext.IsRemote())
			assert.Equal(p.t, []attribute.KeyValue{attribute.Int64("fairlock.token", int64(held.Token()))}, link.Attributes)
		}
		assert.NotEqual(p.t, lock.SpanContext.TraceID(), acquire.SpanContext.TraceID())
		assert.Empty(p.t, other.span("fairlock.acquire").Links, "it did not wait")
		require.NoError(p.t, other.s.Close())
	})
}

// TestEntriesNameTheSpanOfTheirLock: as W3C has it, and only if it is sampled.
func TestEntriesNameTheSpanOfTheirLock(t *testing.T) {
	traced(t, func(p *process, st *membackend.Store) {
		silent := newProcess(p.t, st, tracesdk.NeverSample())
		for _, c := range []struct {
			of   *process
			want func(lock trace.SpanContext) string
		}{
			{p, func(lock trace.SpanContext) string {
				return "00-" + lock.TraceID().String() + "-" + lock.SpanID().String() + "-01"
			}},
			{silent, func(trace.SpanContext) string { return "" }},
		} {
			h := c.of.lock("n")
			entries, err := mutex.New(p.s, "n").Queue(p.t.Context())
			require.NoError(p.t, err)
			assert.Equal(p.t, c.want(trace.SpanContextFromContext(h.Context())), entries[0].Trace)
			require.NoError(p.t, h.Unlock())
		}
		assert.Empty(p.t, silent.exported.GetSpans())
		require.NoError(p.t, silent.s.Close())
	})
}

// refuses is a sampler that drops every span, and notes which.
type refuses struct{ names *[]string }

func (r refuses) ShouldSample(p tracesdk.SamplingParameters) tracesdk.SamplingResult {
	*r.names = append(*r.names, p.Name)
	return tracesdk.SamplingResult{Decision: tracesdk.Drop}
}

func (r refuses) Description() string { return "drops all" }

// TestRequestThatIsNotSampledHasOneSpan: what is not recorded costs next to nothing.
func TestRequestThatIsNotSampledHasOneSpan(t *testing.T) {
	traced(t, func(p *process, st *membackend.Store) {
		var asked []string
		silent := newProcess(p.t, st, refuses{&asked})
		require.NoError(p.t, silent.lock("n").Unlock())
		require.NoError(p.t, silent.s.Close())
		assert.Equal(p.t, []string{"fairlock.lock"}, asked)
	})
}

// TestForeignTraceIsNoLink: any client can write anything into its entry.
func TestForeignTraceIsNoLink(t *testing.T) {
	traced(t, func(p *process, st *membackend.Store) {
		for _, text := range []string{
			"<script>", "00-00000000000000000000000000000000-0000000000000000-01", "00-zz-zz-01", "",
			"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		} {
			hooks := session.Hooks{Trace: func(context.Context) string { return text }}
			other, err := st.Open(p.t.Context(), &session.Options{Hooks: hooks})
			require.NoError(p.t, err)
			held, err := mutex.New(other, "n").Lock(p.t.Context())
			require.NoError(p.t, err)
			done := make(chan *session.Hold)
			go func() { done <- p.lock("n") }()
			synctest.Wait()
			require.NoError(p.t, held.Unlock())
			require.NoError(p.t, (<-done).Unlock())
			assert.Empty(p.t, p.span("fairlock.acquire").Links, text)
			require.NoError(p.t, other.Close())
		}
	})
}

// TestStatusFollowsTheOutcome: an error of the lock is one of its spans, and the text is
// that of the error.
func TestStatusFollowsTheOutcome(t *testing.T) {
	for _, c := range []struct {
		name    string
		failed  bool   // the span "fairlock.lock"
		text    string // of the error that is recorded, if there is one
		outcome string
		end     string
		do      func(p *process, other *session.Session)
	}{
		{"taken", false, "", "taken", "", func(p *process, other *session.Session) {
			_, err := mutex.New(other, "n").Lock(p.t.Context())
			require.NoError(p.t, err)
			_, err = mutex.New(p.s, "n").TryLock(p.t.Context())
			require.ErrorIs(p.t, err, session.ErrNotAcquired)
		}},
		{"gave up", true, "context deadline exceeded", "gave_up", "", func(p *process, other *session.Session) {
			_, err := mutex.New(other, "n").Lock(p.t.Context())
			require.NoError(p.t, err)
			ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
			defer cancel()
			_, err = mutex.New(p.s, "n").Lock(ctx)
			require.ErrorIs(p.t, err, context.DeadlineExceeded)
		}},
		{"refused", true, "invalid options", "refused", "", func(p *process, _ *session.Session) {
			_, err := mutex.NewWith(p.s, "n", mutex.Options{MinHold: -1}).Lock(p.t.Context())
			require.ErrorIs(p.t, err, session.ErrInvalidOptions)
		}},
		{"lost", true, "the deadline passed", "granted", "lost", func(p *process, _ *session.Session) {
			h := p.lock("n")
			p.net.Cut(fault.Both)
			<-h.Context().Done()
			p.net.Heal()
		}},
		{"pending", false, "release pending", "granted", "pending", func(p *process, _ *session.Session) {
			h := p.lock("n")
			p.net.Cut(fault.Requests)
			require.ErrorIs(p.t, h.Unlock(), session.ErrReleasePending)
			p.net.Heal()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			traced(t, func(p *process, st *membackend.Store) {
				other, err := st.Open(p.t.Context(), &session.Options{Logger: slog.New(slog.DiscardHandler)})
				require.NoError(p.t, err)
				c.do(p, other)
				lock := p.span("fairlock.lock")
				assert.Equal(p.t, c.outcome, attributes(lock)["fairlock.outcome"])
				inner := p.span("fairlock.acquire")
				if c.end != "" {
					inner = p.span("fairlock.hold")
					assert.Equal(p.t, c.end, attributes(lock)["fairlock.hold.end"])
				}
				for _, s := range []tracetest.SpanStub{lock, inner} {
					assert.Equal(p.t, c.failed, s.Status.Code == codes.Error, s.Name)
					if c.failed {
						assert.Contains(p.t, s.Status.Description, c.text)
					}
					found := false
					for _, e := range s.Events {
						if e.Name == "exception" {
							found = true
							assert.Contains(p.t, e.Attributes[len(e.Attributes)-1].Value.AsString(), c.text)
							assert.Equal(p.t, s.EndTime, e.Time)
						}
					}
					assert.Equal(p.t, c.text != "", found, s.Name)
				}
				require.NoError(p.t, other.Close())
			})
		})
	}
}

func TestRejoinIsAnEventOfTheWait(t *testing.T) {
	traced(t, func(p *process, st *membackend.Store) {
		other := newProcess(p.t, st, tracesdk.AlwaysSample())
		held := other.lock("n")
		done := make(chan *session.Hold)
		go func() { done <- p.lock("n") }()
		synctest.Wait()
		entries, err := mutex.New(other.s, "n").Queue(p.t.Context())
		require.NoError(p.t, err)
		require.True(p.t, st.Delete("n", entries[1].Key))
		synctest.Wait()
		require.NoError(p.t, held.Unlock())
		require.NoError(p.t, (<-done).Unlock())

		assert.Equal(p.t, []string{"fairlock.joined", "fairlock.rejoined", "exception", "fairlock.joined"}, events(p.span("fairlock.acquire")))
		require.NoError(p.t, other.s.Close())
	})
}

// TestTextsOfSpansAreValid: an exporter refuses a whole batch for one text that is not
// UTF-8.
func TestTextsOfSpansAreValid(t *testing.T) {
	traced(t, func(p *process, _ *membackend.Store) {
		_, err := mutex.New(p.s, "a\xff\x00").Lock(p.t.Context())
		require.ErrorIs(p.t, err, session.ErrInvalidName)
		_, err = mutex.New(p.s, "n").Lock(odd{p.t.Context()})
		require.Error(p.t, err)
		synctest.Wait()
		spans := p.exported.GetSpans()
		require.Len(p.t, spans, 4)
		for _, s := range spans {
			assert.True(p.t, utf8.ValidString(s.Status.Description))
			for _, a := range s.Attributes {
				assert.True(p.t, utf8.ValidString(a.Value.String()), a)
			}
			for _, e := range s.Events {
				for _, a := range e.Attributes {
					assert.True(p.t, utf8.ValidString(a.Value.String()), a)
				}
			}
		}
	})
}

// odd is a context that has ended with an error whose text is not UTF-8.
type odd struct{ context.Context }

func (odd) Err() error { return errors.New("\xff") }

// TestNoTracesAreMadeWithoutAProvider: a hook for traces could cost a read.
func TestNoTracesAreMadeWithoutAProvider(t *testing.T) {
	hooks, err := otel.Hooks(&otel.Options{TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider()})
	require.NoError(t, err)
	assert.Nil(t, hooks.Trace)
	assert.NotNil(t, hooks.Started, "metrics are made")
}

// TestGlobalProvidersAreTheDefault: a program that has set none exports nothing, and
// its locks work.
func TestGlobalProvidersAreTheDefault(t *testing.T) {
	hooks, err := otel.Hooks(nil)
	require.NoError(t, err)
	s, err := membackend.New().Open(t.Context(), &session.Options{Hooks: hooks})
	require.NoError(t, err)
	require.NoError(t, mutex.New(s, "n").Do(t.Context(), func(context.Context, *session.Hold) error { return nil }))
	require.NoError(t, s.Close())
}

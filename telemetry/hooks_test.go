package telemetry_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
)

// TestGaugesDoNotDriftWhenReportsAreDropped: a Session drops Joined, Position, Rejoined
// and SessionRenewed when too many reports wait.
func TestGaugesDoNotDriftWhenReportsAreDropped(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := newRecorder()
	h := telemetry.Hooks(r, nil)
	at := time.Unix(1000, 0)
	sometimes := func(f func()) {
		if random.IntN(2) == 0 {
			f()
		}
	}
	h.SessionOpened(session.Event{At: at, Session: "s", Left: time.Second})
	requests, rejoins := 0, 0
	for range 1000 {
		at = at.Add(time.Second)
		e := session.Event{At: at, Name: "n", Kind: "mutex", Mode: session.Exclusive, Session: "s", Token: session.Token(requests)}
		requests++
		ctx := h.Started(t.Context(), e)
		sometimes(func() {
			rejoins++
			h.Rejoined(ctx, e)
		})
		sometimes(func() { h.SessionRenewed(session.Event{At: at, Session: "s", Left: 1500 * time.Millisecond}) })
		outcomes := []session.Outcome{session.OutcomeGranted, session.OutcomeTaken, session.OutcomeGaveUp, session.OutcomeRefused}
		e.Outcome = outcomes[random.IntN(len(outcomes))]
		sometimes(func() { ctx = context.Background() }) // another hook has lost the values
		h.Ended(ctx, e)
		if e.Outcome == session.OutcomeGranted {
			end := []func(context.Context, session.Event){h.Released, h.Lost}[random.IntN(2)]
			end(ctx, e)
		}
	}
	h.SessionClosed(session.Event{At: at, Session: "s"})

	v := telemetry.Values{Name: "n", Kind: "mutex"}
	assert.Zero(t, r.value(telemetry.Waiters, v))
	assert.Zero(t, r.value(telemetry.Holds, v))
	assert.Zero(t, r.value(telemetry.Sessions, telemetry.Values{}))
	assert.InDelta(t, rejoins, r.value(telemetry.Rejoins, v), 0)
	for _, s := range r.read() {
		if s.ID == telemetry.RenewalSlack {
			assert.Positive(t, s.Value)
			assert.Zero(t, s.Counts[0], "a dropped report is no renewal at the last moment")
		}
	}
}

// TestLossWithoutReasonHasOne: a metric without a value of an attribute is hard to find.
func TestLossWithoutReasonHasOne(t *testing.T) {
	r := newRecorder()
	h := telemetry.Hooks(r, nil)
	h.Lost(t.Context(), session.Event{Name: "n", Kind: "mutex"})

	assert.InDelta(t, 1, r.value(telemetry.HoldsLost, telemetry.Values{Name: "n", Kind: "mutex", Reason: "unknown"}), 0)
}

// TestJoinCallsEveryHookOfAll goes through the fields, so that it finds a new one.
func TestJoinCallsEveryHookOfAll(t *testing.T) {
	var calls []string
	numbered := func(n int) session.Hooks {
		var h session.Hooks
		v := reflect.ValueOf(&h).Elem()
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func(args []reflect.Value) []reflect.Value {
				calls = append(calls, fmt.Sprint(name, n))
				var out []reflect.Value
				for out0 := range v.FieldByName(name).Type().Outs() {
					out = append(out, reflect.Zero(out0))
				}
				return out
			}))
		}
		return h
	}
	of := reflect.ValueOf(telemetry.Join(numbered(1), session.Hooks{}, numbered(2)))
	for i := range of.NumField() {
		calls = nil
		in := []reflect.Value{}
		for at := range of.Field(i).Type().Ins() {
			if at == reflect.TypeFor[context.Context]() {
				in = append(in, reflect.ValueOf(t.Context()))
			} else {
				in = append(in, reflect.Zero(at))
			}
		}
		of.Field(i).Call(in)
		name := of.Type().Field(i).Name
		assert.Equal(t, []string{name + "1", name + "2"}, calls)
	}
	assert.True(t, reflect.ValueOf(telemetry.Join(session.Hooks{}, session.Hooks{})).IsZero(), "nothing is set")
}

type key struct{ n int }

func TestJoinPassesTheContextOn(t *testing.T) {
	started := func(n int) session.Hooks {
		return session.Hooks{Started: func(ctx context.Context, _ session.Event) context.Context {
			if n == 2 {
				return nil
			}
			return context.WithValue(ctx, key{n}, true)
		}}
	}
	ctx := telemetry.Join(started(1), started(2), started(3)).Started(t.Context(), session.Event{})

	assert.Equal(t, true, ctx.Value(key{1}))
	assert.Equal(t, true, ctx.Value(key{3}))
}

func TestJoinHasTheFirstTrace(t *testing.T) {
	trace := func(text string) session.Hooks {
		return session.Hooks{Trace: func(context.Context) string { return text }}
	}
	assert.Equal(t, "a", telemetry.Join(trace(""), trace("a"), trace("b")).Trace(t.Context()))
}

// TestEveryMetricHasItsPlace: exporters look metrics up by their ID.
func TestEveryMetricHasItsPlace(t *testing.T) {
	names := map[string]bool{}
	for i, m := range telemetry.Metrics() {
		assert.Equal(t, telemetry.ID(i), m.ID, m.Name)
		assert.NotEmpty(t, m.Unit, m.Name)
		assert.NotEmpty(t, m.Help, m.Name)
		assert.Equal(t, m.Kind == telemetry.Histogram, len(m.Buckets) > 0, m.Name)
		assert.IsIncreasing(t, append([]float64{0}, m.Buckets...))
		names[m.Name], names[m.Prometheus] = true, true
		for _, a := range m.Attributes {
			assert.NotEmpty(t, a.Label(), a)
		}
	}
	assert.Len(t, names, 2*len(telemetry.Metrics()))
	assert.Empty(t, telemetry.Attribute("").Label()+telemetry.Values{}.Of(""))
}

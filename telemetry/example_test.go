package telemetry_test

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
)

// counts is a recorder that prints how counters change. Packages telemetry/prometheus and
// telemetry/otel have one each.
type counts struct{}

func (counts) Add(_ context.Context, id telemetry.ID, delta int64, v telemetry.Values) {
	if delta != 0 {
		fmt.Println(telemetry.Metrics()[id].Name, v.Name, delta)
	}
}

func (counts) Record(context.Context, telemetry.ID, float64, telemetry.Values) {}

func (counts) Observe(telemetry.ID, func() (float64, bool)) {}

func ExampleHooks() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, &session.Options{Hooks: telemetry.Hooks(counts{}, nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = mutex.New(s, "orders").Do(ctx, func(context.Context, *session.Hold) error { return nil })
	fmt.Println(err, s.Close())
	// Output:
	// fairlock.sessions  1
	// fairlock.waiters orders 1
	// fairlock.holds orders 1
	// fairlock.waiters orders -1
	// fairlock.holds orders -1
	// fairlock.sessions  -1
	// <nil> <nil>
}

func ExampleJoin() {
	ctx := context.Background()
	mine := session.Hooks{Lost: func(_ context.Context, e session.Event) { fmt.Println("lost", e.Name) }}
	s, err := membackend.New().Open(ctx, &session.Options{Hooks: telemetry.Join(telemetry.Hooks(counts{}, nil), mine)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Close())
	// Output:
	// fairlock.sessions  1
	// fairlock.sessions  -1
	// <nil>
}

func ExampleMetrics() {
	for _, m := range telemetry.Metrics() {
		fmt.Println(m.Prometheus)
	}
	// Output:
	// fairlock_acquire_duration_seconds
	// fairlock_hold_duration_seconds
	// fairlock_waiters
	// fairlock_holds
	// fairlock_handoff_duration_seconds
	// fairlock_holds_lost_total
	// fairlock_rejoins_total
	// fairlock_sessions
	// fairlock_sessions_lost_total
	// fairlock_session_slack_seconds
	// fairlock_renewal_slack_seconds
}

package waits_test

import (
	"context"
	"testing"
	"time"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry/waits"
)

// deep calls f below that many further frames.
func deep(frames int, f func()) {
	if frames > 0 {
		deep(frames-1, f)
		return
	}
	f()
}

// BenchmarkHooks measures what the table's own code costs one lock and unlock: Started,
// which its caller waits for, and all hooks together. On etcd, lock and unlock take 400 µs
// and more, so 2 % are 8 µs.
func BenchmarkHooks(b *testing.B) {
	e := session.Event{ID: 1, Name: "orders", Kind: "mutex", At: time.Now()}
	granted := e
	granted.Outcome = session.OutcomeGranted
	for name, frames := range map[string]int{"shallow": 0, "deep": 60} {
		b.Run(name, func(b *testing.B) {
			hooks := waits.New().Hooks()
			ctx := context.Background()
			b.ReportAllocs()
			deep(frames, func() {
				var started time.Duration
				for b.Loop() {
					began := time.Now()
					ctx := hooks.Started(ctx, e)
					started += time.Since(began)
					hooks.Joined(ctx, e)
					hooks.Ended(ctx, granted)
					hooks.Released(ctx, granted)
				}
				b.ReportMetric(float64(started)/float64(b.N), "ns-in-caller/op")
			})
		})
	}
}

// BenchmarkLock measures lock and unlock in memory: without hooks, with hooks that do
// nothing, which the Session calls all the same, and with the table's.
func BenchmarkLock(b *testing.B) {
	table := waits.New()
	nothing := func(context.Context, session.Event) {}
	idle := session.Hooks{
		Started: func(ctx context.Context, _ session.Event) context.Context { return ctx },
		Joined:  nothing, Position: nothing, Rejoined: nothing, Ended: nothing, Released: nothing, Lost: nothing,
	}
	for _, c := range []struct {
		name  string
		hooks session.Hooks
	}{{"bare", session.Hooks{}}, {"idle", idle}, {"waits", table.Hooks()}} {
		b.Run(c.name, func(b *testing.B) {
			s, err := membackend.New().Open(b.Context(), &session.Options{Hooks: c.hooks})
			if err != nil {
				b.Fatal(err)
			}
			m := mutex.New(s, "orders")
			for b.Loop() {
				h, err := m.Lock(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				_ = h.Unlock()
			}
			_ = s.Close()
		})
	}
}

// BenchmarkWaiter measures the memory that a waiter takes in the table.
func BenchmarkWaiter(b *testing.B) {
	hooks := waits.New().Hooks()
	e := session.Event{ID: 1, Name: "orders", Kind: "mutex", At: time.Now()}
	b.ReportAllocs()
	deep(15, func() {
		for b.Loop() {
			hooks.Started(b.Context(), e)
		}
	})
}

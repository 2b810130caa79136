package session

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/report"
	"github.com/fairlock/fairlock/session/driver"
)

// requestOf returns a Session that has these hooks, and nothing else.
func requestOf(h Hooks) *Session {
	s := &Session{backend: struct{ driver.Backend }{}, clock: driver.SystemClock(), opts: Options{Hooks: h}, hooked: h.requests()}
	s.reports = report.New[Event](slog.New(slog.DiscardHandler))
	return s
}

// live takes a request through all hooks except those for waiting.
func live(ctx context.Context, s *Session) {
	ctx, q := start(ctx, s, []engine.Request{{Name: "orders", Kind: "mutex"}})
	hooks := engine.Hooks(q)
	hooks.Joined("a", 7, 0)
	hooks.Granted(ctx, "a", 7, time.Second)
	q.failed(nil)
	hooks.Over(nil)
}

// A request that is granted at once allocates little with hooks.
func TestHooksOfARequestAllocateLittle(t *testing.T) {
	ctx := t.Context()
	note := func(context.Context, Event) {}
	s := requestOf(Hooks{Joined: note, Ended: note, Released: note})
	allocs := testing.AllocsPerRun(1000, func() {
		live(ctx, s)
		s.reports.Flush()
	})
	t.Logf("%v allocations for a request with hooks, and for a goroutine that calls them", allocs)
	assert.LessOrEqual(t, allocs, 8.0)
}

// BenchmarkHooks measures what the hooks of one request cost its caller: how long the
// calls of it take, apart from the hooks, which run elsewhere and are waited for after
// every request, or every 50.
func BenchmarkHooks(b *testing.B) {
	note := func(context.Context, Event) {}
	start := func(ctx context.Context, _ Event) context.Context { return ctx }
	for _, c := range []struct {
		name  string
		burst int
		hooks Hooks
	}{
		{"Started", 50, Hooks{Started: start}},
		{"Started,Joined,Ended,Released", 50, Hooks{Started: start, Joined: note, Ended: note, Released: note}},
		{"Started,Joined,Ended,Released,one by one", 1, Hooks{Started: start, Joined: note, Ended: note, Released: note}},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx := b.Context()
			s := requestOf(c.hooks)
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				for range c.burst {
					live(ctx, s)
				}
				took = append(took, time.Since(began))
				s.reports.Flush()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/float64(c.burst), "ns/request")
		})
	}
}

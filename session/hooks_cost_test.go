package session

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/report"
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// requestOf returns a Session that has these hooks, and nothing else.
func requestOf(h Hooks) (s *Session, t *term.Term) {
	s = &Session{backend: struct{ driver.Backend }{}, clock: driver.SystemClock(), opts: Options{Hooks: h}, hooked: h.requests()}
	s.reports = report.New[Event](slog.New(slog.DiscardHandler))
	return s, &term.Term{}
}

// live takes a request through all hooks except those for waiting.
func live(ctx context.Context, s *Session, t *term.Term, g *grant) {
	ctx, q := start(ctx, s, door.Start{Name: "orders", Kind: "mutex"})
	hooks := door.Request(q)
	hooks.Joined(t, 7, 0)
	q.grantedTo(ctx, g, time.Second)
	hooks.Ended(nil)
	q.over(nil)
}

// TestHooksThatAreNilCostNoAllocation: the second part checks that a request that is
// granted at once allocates little with hooks.
func TestHooksThatAreNilCostNoAllocation(t *testing.T) {
	ctx := t.Context()
	s, tm := requestOf(Hooks{SessionRenewed: func(Event) {}})
	g := &grant{s: s, t: tm, Grant: door.Grant{Token: 7}}
	require.Zero(t, testing.AllocsPerRun(100, func() { live(ctx, s, tm, g) }))

	note := func(context.Context, Event) {}
	s, tm = requestOf(Hooks{Joined: note, Ended: note, Released: note})
	g.s, g.t = s, tm
	allocs := testing.AllocsPerRun(1000, func() {
		live(ctx, s, tm, g)
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
		{"nil", 50, Hooks{}},
		{"Started", 50, Hooks{Started: start}},
		{"Started,Joined,Ended,Released", 50, Hooks{Started: start, Joined: note, Ended: note, Released: note}},
		{"Started,Joined,Ended,Released,one by one", 1, Hooks{Started: start, Joined: note, Ended: note, Released: note}},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx := b.Context()
			s, t := requestOf(c.hooks)
			g := &grant{s: s, t: t, Grant: door.Grant{Token: 7}}
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				for range c.burst {
					live(ctx, s, t, g)
				}
				took = append(took, time.Since(began))
				s.reports.Flush()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/float64(c.burst), "ns/request")
		})
	}
}

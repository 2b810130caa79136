package monitoring_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry/prometheus"
)

// The parts of a run, measured from its start.
const (
	healthy = 20 * time.Minute // no fault until then
	over    = 40 * time.Minute
	scrapes = 15 * time.Second
)

// instance is a process of the run.
type instance struct {
	*membackend.Client
	s        *session.Session
	registry *client.Registry
}

// newInstance returns a process that shows its metrics.
func newInstance(t *testing.T, store *membackend.Store, name string) *instance {
	t.Helper()
	p := &instance{Client: store.NewClient(), registry: client.NewRegistry()}
	metrics := prometheus.New(nil)
	client.WrapRegistererWith(client.Labels{"job": "orders", "instance": name}, p.registry).MustRegister(metrics)
	s, err := p.Open(context.Background(), &session.Options{Label: name, Hooks: metrics.Hooks(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	p.s = s
	return p
}

// scrape appends what a scrape returns to out, in OpenMetrics.
func (p *instance) scrape(t *testing.T, out *bytes.Buffer) {
	t.Helper()
	families, err := p.registry.Gather()
	require.NoError(t, err)
	var text bytes.Buffer
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&text, f)
		require.NoError(t, err)
	}
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			fmt.Fprintf(out, "%s %d\n", strings.TrimSpace(line), time.Now().Unix())
		}
	}
}

// work acquires a lock again and again until ctx ends, and holds it for a time.
func (p *instance) work(ctx context.Context, name string, held, pause time.Duration) {
	m := mutex.New(p.s, name)
	for ctx.Err() == nil {
		_ = m.Do(ctx, func(ctx context.Context, _ *session.Hold) error {
			sleep(ctx, held)
			return nil
		})
		sleep(ctx, pause)
	}
}

// lead leads until ctx ends.
func lead(ctx context.Context, _ *session.Hold) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// sleep waits until the time has passed or ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// run lets two processes work, in virtual time, and returns what scrapes of them returned.
// After a healthy part, one is cut off twice while it holds and waits, callers give up,
// requests are refused, and a release is not answered.
func run(t *testing.T) (began time.Time, samples []byte) {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		began = time.Now()
		store := membackend.New()
		a, b := newInstance(t, store, "a"), newInstance(t, store, "b")
		ctx, cancel := context.WithTimeout(t.Context(), over)
		defer cancel()
		var all sync.WaitGroup
		for _, w := range []struct {
			p           *instance
			name        string
			held, pause time.Duration
		}{
			{a, "orders/settle", 2 * time.Second, time.Second},
			{a, "orders/settle", time.Second, 3 * time.Second},
			{b, "orders/settle", 3 * time.Second, 2 * time.Second},
			{b, "orders/settle", time.Second, 2 * time.Second},
			{a, "bills", 5 * time.Second, 10 * time.Second},
		} {
			all.Go(func() { w.p.work(ctx, w.name, w.held, w.pause) })
		}
		all.Go(func() {
			for sleep(ctx, scrapes/3); ctx.Err() == nil; sleep(ctx, scrapes) {
				a.scrape(t, &out)
				b.scrape(t, &out)
			}
		})
		for _, p := range []*instance{a, b} { // a leader, and a follower that waits all the time
			all.Go(func() { _ = election.New(p.s, "scheduler").Run(ctx, "", lead) })
		}
		all.Go(func() { // a caller that does not wait
			for ; ctx.Err() == nil; sleep(ctx, time.Minute) {
				_ = mutex.New(a.s, "bills").TryDo(ctx, func(context.Context, *session.Hold) error { return nil })
			}
		})
		all.Go(func() {
			sleep(ctx, healthy)
			trouble(ctx, t, a, b)
		})
		all.Wait()
		require.NoError(t, a.s.Close())
		require.NoError(t, b.s.Close())
	})
	out.WriteString("# EOF\n")
	return began, out.Bytes()
}

// trouble causes the faults after the healthy part.
func trouble(ctx context.Context, t *testing.T, a, b *instance) {
	t.Helper()
	nothing := func(context.Context, *session.Hold) error { return nil }
	ours, theirs := mutex.New(b.s, "reports"), mutex.New(a.s, "exports")
	for range 2 { // b is cut off while it holds one lock and waits for another
		lost, err := ours.Lock(ctx)
		require.NoError(t, err)
		blocks, err := theirs.Lock(ctx)
		require.NoError(t, err)
		var waiter sync.WaitGroup
		waiter.Go(func() { assert.NoError(t, mutex.New(b.s, "exports").Do(ctx, nothing)) })
		sleep(ctx, time.Second) // now it waits
		b.Cut(fault.Both)
		sleep(ctx, 4*time.Minute)
		assert.ErrorIs(t, lost.Unlock(), session.ErrLost)
		b.Heal()
		sleep(ctx, time.Minute)
		require.NoError(t, blocks.Unlock())
		waiter.Wait()
	}
	for range 10 {
		h, err := ours.Lock(ctx)
		require.NoError(t, err)
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		assert.ErrorIs(t, mutex.New(a.s, "reports").Do(bounded, nothing), session.ErrNotAcquired)
		cancel()
		assert.ErrorIs(t, mutex.NewWith(a.s, "reports", mutex.Options{MinHold: -1}).Do(ctx, nothing), session.ErrInvalidOptions)
		b.Cut(fault.Both)
		assert.ErrorIs(t, h.Unlock(), session.ErrReleasePending)
		b.Heal()
		sleep(ctx, 20*time.Second)
	}
}

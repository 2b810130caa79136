package worker

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/wire"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testWorker is a worker in this process, as its parent sees it.
type testWorker struct {
	client *membackend.Client
	stdin  *io.PipeWriter
	orders *wire.Writer
	done   chan error

	mu     sync.Mutex
	events []wire.Event
}

// startWorker starts a worker on a service in memory.
func startWorker(t *testing.T, st *membackend.Store, cfg Config) *testWorker {
	t.Helper()
	stdin, orders := io.Pipe()
	events, stdout := io.Pipe()
	h := &testWorker{client: st.NewClient(), stdin: orders, orders: wire.NewWriter(orders), done: make(chan error, 1)}
	out := wire.NewWriter(stdout)
	opts := Session(cfg, out)
	s, err := h.client.Open(t.Context(), &opts)
	require.NoError(t, err)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_ = wire.Each(events, func(e wire.Event) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.events = append(h.events, e)
		})
	}()
	go func() {
		err := Work(context.Background(), s, cfg, stdin, out)
		_ = s.Close()
		_ = stdout.Close()
		<-read
		h.done <- err
	}()
	t.Cleanup(func() { _ = orders.Close() })
	return h
}

// leave ends the worker and returns all events that it reported.
func (h *testWorker) leave(t *testing.T) []wire.Event {
	t.Helper()
	_ = h.stdin.Close()
	require.NoError(t, <-h.done)
	return h.events
}

// seen returns the first event of a kind, if it has been reported.
func (h *testWorker) seen(kind wire.Kind) (wire.Event, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Kind == kind {
			return e, true
		}
	}
	return wire.Event{}, false
}

func (h *testWorker) waitFor(t *testing.T, kind wire.Kind) (first wire.Event) {
	t.Helper()
	hang.Until(t, func() (ok bool) {
		first, ok = h.seen(kind)
		return ok
	}, "%s", kind)
	return first
}

func serveLedger(t *testing.T) (*ledger.Ledger, string) {
	t.Helper()
	var l ledger.Ledger
	s, err := ledger.Serve(t.Context(), &l, ledger.Callbacks{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &l, s.URL()
}

func TestWorkersTakeTurnsAndReportThem(t *testing.T) {
	l, url := serveLedger(t)
	st := membackend.New()
	names := []string{"ada", "bob", "cleo"}
	var workers []*testWorker
	for _, name := range names {
		workers = append(workers, startWorker(t, st, Config{
			Name: name, Lock: "ledger", Ledger: url, TTL: 20 * time.Second, Work: time.Millisecond,
		}))
	}
	hang.Until(t, func() bool {
		_, n := l.Last(0)
		return n > 100
	}, "there are no 100 writes")
	refused := l.Refused() // read before the workers leave: a late request of theirs may be refused

	var grants []check.Grant
	for i, h := range workers {
		at := map[int64]int{}
		joined := map[int64]stamp.Stamp{}
		for _, e := range h.leave(t) {
			switch e.Kind {
			case wire.Joined:
				joined[e.Token] = e.At
			case wire.Granted:
				at[e.Token] = len(grants)
				grants = append(grants, check.Grant{Worker: names[i], Token: e.Token, Joined: joined[e.Token], At: e.At})
			case wire.Released:
				g := &grants[at[e.Token]]
				g.How, g.End = check.Released, e.At
			default:
			}
		}
	}

	_, n := l.Last(0)
	writes, _ := l.Last(n)
	assert.Empty(t, check.Overlaps(grants))
	assert.Empty(t, check.LostUpdates(writes))
	assert.Empty(t, refused)
	assert.NotEmpty(t, check.Handoffs(grants))
	assert.Empty(t, membackend.Engine(door.Key{}).Entries(st, "ledger"), "a worker that left has no entry")
}

// stalled starts a worker, waits until it holds and has read the ledger, and cuts it off
// from the service. Its job outlasts its session, so another worker holds meanwhile.
func stalled(t *testing.T, careless bool) (l *ledger.Ledger, h *testWorker, token int64) {
	t.Helper()
	l, url := serveLedger(t)
	st := membackend.New()
	cfg := Config{Name: "dan", Lock: "ledger", Ledger: url, TTL: time.Second, Work: 2 * time.Second, Careless: careless}
	h = startWorker(t, st, cfg)
	token = h.waitFor(t, wire.Read).Token
	h.client.Stall()
	cfg = Config{Name: "eve", Lock: "ledger", Ledger: url, TTL: 20 * time.Second, Work: time.Millisecond}
	other := startWorker(t, st, cfg)
	other.waitFor(t, wire.Read)
	other.leave(t)
	require.Greater(t, l.Highest(), token)
	return l, h, token
}

func TestCarelessWorkerIsRefusedAndReportsThatItWasLate(t *testing.T) {
	l, h, token := stalled(t, true)
	late := h.waitFor(t, wire.Late)
	hang.Until(t, func() bool { return len(l.Refused()) > 0 }, "no write is refused")
	h.client.Resume()
	h.leave(t)

	assert.Equal(t, token, late.Token)
	assert.Zero(t, late.Valid)
	r := l.Refused()[0]
	assert.True(t, r.Write)
	assert.Equal(t, "dan", r.Worker)
	assert.Equal(t, token, r.Token)
}

func TestCarefulWorkerDoesNotWriteAfterALoss(t *testing.T) {
	l, h, token := stalled(t, false)
	h.client.Resume()
	lost := h.waitFor(t, wire.Lost)
	h.leave(t)

	assert.Equal(t, token, lost.Token)
	assert.Contains(t, lost.Err, "lost")
	for _, r := range l.Refused() { // eve's last write may be refused: it can be under way when eve leaves
		assert.NotEqual(t, "dan", r.Worker)
	}
	_, late := h.seen(wire.Late)
	assert.False(t, late)
}

func TestOrderForOneJobIsForOneJob(t *testing.T) {
	p := newPace(time.Second)
	p.order(wire.Order{Job: 7 * time.Second})

	assert.Equal(t, 7*time.Second, p.next())
	assert.InDelta(t, float64(time.Second), float64(p.next()), float64(250*time.Millisecond))
	p.order(wire.Order{Work: time.Millisecond})
	assert.InDelta(t, float64(time.Millisecond), float64(p.next()), float64(250*time.Microsecond))
}

func TestOrderToEndEndsThePresentJobOnly(t *testing.T) {
	_, url := serveLedger(t)
	h := startWorker(t, membackend.New(), Config{Name: "ada", Lock: "ledger", Ledger: url, TTL: 20 * time.Second, Work: time.Hour})
	h.waitFor(t, wire.Read)

	require.NoError(t, h.orders.Write(wire.Order{End: true}))
	h.waitFor(t, wire.Released)

	p := newPace(time.Second)
	p.order(wire.Order{End: true})
	p.order(wire.Order{End: true})
	require.NotEmpty(t, p.end)
	p.next()
	assert.Empty(t, p.end)
}

// On a busy machine, opening a session may take longer than the library's own timeout.
func TestWorkerWaitsForItsSessionUntilTheScriptEnds(t *testing.T) {
	stdin, orders := io.Pipe()
	defer orders.Close()
	var left time.Duration

	err := run(t.Context(), Config{Name: "ada"}, stdin, io.Discard, func(ctx context.Context, _ Config, _ session.Options) (*session.Session, error) {
		end, bounded := ctx.Deadline()
		require.True(t, bounded, "otherwise the library's own timeout applies")
		left = time.Until(end)
		return nil, session.ErrUnavailable
	})

	require.EqualError(t, err, "worker ada: open a session: "+session.ErrUnavailable.Error())
	assert.Greater(t, left, 50*time.Second, "it waits until the script ends")
}

func TestWorkerWithoutSessionLeavesWhenStdinEnds(t *testing.T) {
	stdin, orders := io.Pipe()

	err := run(t.Context(), Config{Name: "ada"}, stdin, io.Discard, func(ctx context.Context, _ Config, _ session.Options) (*session.Session, error) {
		require.NoError(t, orders.Close())
		<-ctx.Done()
		return nil, session.ErrUnavailable
	})

	assert.NoError(t, err)
}

package recipetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// name is the lock of cases that need only one.
const name = "orders/settle"

// Fixture is what one case runs on: a part of a service that no other case sees.
type Fixture struct {
	t   *testing.T
	h   drivertest.Harness
	svc drivertest.Service

	short time.Duration        // the TTL of sessions that expire in the case
	pace  *metronome.Metronome // nil in virtual time
}

// NewFixture returns the fixture of the case t on a harness.
func NewFixture(t *testing.T, h drivertest.Harness) *Fixture {
	w := &Fixture{t: t, h: h, svc: h.Service(t), short: h.TTL}
	w.h.TTL = cmp.Or(h.Calm, h.TTL)
	if !h.Virtual {
		w.pace = metronome.Start()
		t.Cleanup(w.pace.Stop)
	}
	return w
}

// timeout is how long a case waits for what must come before it counts as a hang. In virtual
// time it is how long it takes at most until a session has expired and the next waiter holds.
func (w *Fixture) timeout() time.Duration {
	if !w.h.Virtual {
		return Patience
	}
	return 3*w.h.TTL + 5*time.Second
}

// soon is a context for what must come.
func (w *Fixture) soon() context.Context { return bounded(w.t, w.timeout()) }

// Client opens a session on a network of its own. It is closed when the case ends.
func (w *Fixture) Client(label string) *Client {
	w.t.Helper()
	return w.open(label, w.h.TTL)
}

// mortal returns a client whose session expires in the case. Its TTL is short, so that the
// case need not wait for long.
func (w *Fixture) mortal(label string) *Client {
	w.t.Helper()
	return w.open(label, w.short)
}

func (w *Fixture) open(label string, ttl time.Duration, change ...func(*session.Options)) *Client {
	w.t.Helper()
	return w.openOn(label, ttl, drivertest.Client.Backend, change...)
}

// attend has an observer watch the queue from now on, on a service on which sessions end only where
// a client looks.
func (w *Fixture) attend() {
	w.t.Helper()
	if !w.h.Observed {
		return
	}
	b := w.svc.Client(w.t).Backend()
	s, err := b.Open(w.soon(), driver.Config{
		Observer: true, Margin: b.Info().Margin, Logger: slog.New(slog.DiscardHandler),
		Renewed: func(driver.Instant, time.Duration, time.Duration) {},
		Gone:    func(error) {},
	})
	require.NoError(w.t, err, "open")
	s.Watch(driver.Target{Kind: driver.OfQueue, Queue: name}, func(driver.Event) {})
	w.t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), w.timeout()) // the case's own has ended
		defer stop()
		assert.NoError(w.t, s.Close(ctx))
		assert.NoError(w.t, b.Close())
	})
}

// openOn opens a session on a backend of the network.
func (w *Fixture) openOn(
	label string, ttl time.Duration, backend func(drivertest.Client) driver.Backend, change ...func(*session.Options),
) *Client {
	w.t.Helper()
	c := &Client{w: w, net: w.svc.Client(w.t), own: ownEntries{refs: map[session.Token][]driver.Ref{}, armed: map[driver.Ref]bool{}}}
	o := c.options(ttl)
	o.Label = label
	// The log of the case is shown if it fails.
	text := slog.NewTextHandler(io.MultiWriter(w.t.Output(), &c.Log), &slog.HandlerOptions{Level: slog.LevelDebug})
	o.Logger = slog.New(text).With("client", label)
	for _, f := range change {
		f(&o)
	}
	s, err := core().Open(w.soon(), serial{backend(c.net), w.t, &c.own}, &o)
	require.NoError(w.t, c.Opened(w.t, s, err), "open")
	return c
}

func (w *Fixture) clients(n int) []*Client {
	ps := make([]*Client, n)
	for i := range ps {
		ps[i] = w.Client(fmt.Sprint("p", i))
	}
	return ps
}

// hold locks, and ends the case if it cannot.
func (p *Client) hold() *session.Hold {
	p.w.t.Helper()
	return p.holds(lock)
}

// lock requests a mutex.
func lock(ctx context.Context, s *session.Session) (*session.Hold, error) {
	return mutex.New(s, name).Lock(ctx)
}

// queue starts a Lock and returns when it has a place in the queue.
func (p *Client) queue(ctx context.Context) *Request {
	p.w.t.Helper()
	return p.queueFor(ctx, lock)
}

// queueFor starts a request for any lock and returns when it has a place in the queue.
func (p *Client) queueFor(ctx context.Context, want locking) *Request {
	p.w.t.Helper()
	r := p.startFor(ctx, want)
	r.token = within(p.w.t, p.w.timeout(), p.joined, "a place in the queue")
	return r
}

// start starts a Lock.
func (p *Client) start(ctx context.Context) *Request { return p.Begin(ctx, name) }

// startFor starts a request for any lock.
func (p *Client) startFor(ctx context.Context, want locking) *Request {
	return p.BeginWith(func() (*session.Hold, error) { return want(ctx, p.Session) })
}

// granted returns the hold, and ends the case if there is none.
func (r *Request) granted() *session.Hold {
	r.c.w.t.Helper()
	r.returned()
	require.NoError(r.c.w.t, r.Err, "lock")
	return r.Hold
}

// returned waits until Lock has returned.
func (r *Request) returned() {
	r.c.w.t.Helper()
	within(r.c.w.t, r.c.w.timeout(), r.Done, "the end of Lock")
}

// names requires that the error of a cancelled request names the holder. The call waits at
// most 25 ms to read the holder, so one that took longer may not name it.
func (r *Request) names(holder string, cancelled time.Time) {
	r.c.w.t.Helper()
	took := r.at.Sub(cancelled)
	if took < 25*time.Millisecond {
		assert.Contains(r.c.w.t, r.Err.Error(), holder, "after %s", took)
	}
}

// try calls a try. On servers it is made again while it fails because no server answers for as
// long as a try takes, once nothing is left of the failed one.
func (w *Fixture) try(f func(context.Context) (*session.Hold, error)) (*session.Hold, error) {
	w.t.Helper()
	before := w.svc.Count(w.t, name)
	for {
		h, err := f(w.soon())
		if w.h.Virtual || !errors.Is(err, session.ErrUnavailable) {
			return h, err
		}
		w.eventually(before, "nothing is left of a try")
	}
}

// tryFor is try for permits.
func (w *Fixture) tryFor(m *semaphore.Semaphore, n int64) (*session.Hold, error) {
	w.t.Helper()
	return w.try(func(ctx context.Context) (*session.Hold, error) { return m.TryAcquire(ctx, n) })
}

// ending is the end of a hold's context: the time at which it ended.
type ending struct {
	done chan struct{}
	at   time.Time
}

func endOf(h *session.Hold) *ending {
	x := &ending{done: make(chan struct{})}
	context.AfterFunc(h.Context(), func() {
		x.at = time.Now()
		close(x.done)
	})
	return x
}

// when waits for the end of the context and returns its time.
func (w *Fixture) when(x *ending) time.Time {
	w.t.Helper()
	within(w.t, w.timeout(), x.done, "the end of the hold's context")
	return x.at
}

// eventually waits until the queue has that many entries.
func (w *Fixture) eventually(n int, why string) {
	w.t.Helper()
	w.queueHas(n, name, why)
}

// ofCase labels goroutines with the case that has started them. Goroutines that those
// start inherit the label.
const ofCase = "case"

// goroutines counts the live goroutines with the label of this case. The process has
// others, of cases that run at the same time.
func (w *Fixture) goroutines() (n int) {
	w.t.Helper()
	var profile bytes.Buffer
	require.NoError(w.t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	label := fmt.Sprintf("%q:%q", ofCase, w.t.Name())
	same := 0 // how many goroutines have the same stack
	for line := range strings.Lines(profile.String()) {
		count, _, is := strings.Cut(line, " @ ")
		if is {
			var err error
			same, err = strconv.Atoi(count)
			require.NoError(w.t, err)
		} else if strings.HasPrefix(line, "# labels:") && strings.Contains(line, label) {
			n += same
		}
	}
	return n
}

// unlock releases a hold. In virtual time no release is late. Where one is, unlock waits until the
// service has done it, because a request of another client may be done before it. A writer's hold
// inside which readers go on becomes theirs.
func (w *Fixture) unlock(h *session.Hold) {
	w.t.Helper()
	mode := h.Mode()
	err := h.Unlock()
	if w.h.Virtual || !late(err) {
		assert.NoError(w.t, err, "unlock")
		return
	}
	by := w.Client("reader")
	for _, ref := range Refs(h) {
		w.until("released", func() bool {
			return !slices.ContainsFunc(by.entriesOf(ref.Queue), func(e driver.Entry) bool {
				return e.Ref == ref && (mode != session.Exclusive || !e.Shares())
			})
		})
	}
}

// released is Released. In virtual time no release is late.
func (w *Fixture) released(err error) bool {
	w.t.Helper()
	if w.h.Virtual {
		return assert.NoError(w.t, err)
	}
	return Released(w.t, err)
}

// entries returns the queue of cases that need only one, as p reads it.
func (p *Client) entries() []driver.Entry {
	p.w.t.Helper()
	return p.entriesOf(name)
}

// nth returns one of the entries.
func (p *Client) nth(i int) driver.Entry {
	p.w.t.Helper()
	entries := p.entries()
	require.Greater(p.w.t, len(entries), i, "entries")
	return entries[i]
}

func (p *Client) entriesOf(name string) []driver.Entry {
	p.w.t.Helper()
	v, err := core().Of(p.Session).Read(p.w.soon(), whole(name))
	require.NoError(p.w.t, err, "queue")
	return v.Entries
}

// entry returns the entry with that token in a queue.
func (p *Client) entry(name string, token session.Token) driver.Entry {
	p.w.t.Helper()
	entries := p.entriesOf(name)
	i := slices.IndexFunc(entries, func(e driver.Entry) bool { return e.Token == int64(token) })
	require.GreaterOrEqual(p.w.t, i, 0, "no entry with token %d", token)
	return entries[i]
}

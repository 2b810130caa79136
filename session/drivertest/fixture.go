package drivertest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// line is the line of cases that need only one.
const line = "orders/settle"

// fixture is what one case runs on.
type fixture struct {
	t   *testing.T
	h   Harness
	svc Service
	ctx context.Context //nolint:containedctx // the test's own

	short time.Duration // the TTL of cases about ends of sessions
}

func newFixture(t *testing.T, h Harness) *fixture {
	w := &fixture{t: t, h: h, svc: h.Service(t), ctx: t.Context(), short: h.TTL}
	w.h.TTL = cmp.Or(h.Calm, h.TTL)
	return w
}

// expires is said first in cases in which sessions come to their end.
func (w *fixture) expires() { w.h.TTL = w.short }

// renews is said first in cases that wait for renewals.
func (w *fixture) renews() { w.h.TTL = 2 * w.short }

// patience is how long a case waits for what must come before it counts as a hang. No
// claim about time rests on it.
func (w *fixture) patience() time.Duration {
	if !w.h.Virtual {
		return time.Minute
	}
	return 3*w.h.TTL + 2*time.Second
}

// soon is a context for what must come, within one for what takes at most d.
func (w *fixture) soon() context.Context { return w.within(w.patience()) }

func (w *fixture) within(d time.Duration) context.Context {
	ctx, stop := context.WithTimeout(w.ctx, d)
	w.t.Cleanup(stop)
	return ctx
}

// client returns a client whose backend is closed with the case, after the
// sessions on it.
func (w *fixture) client() Client {
	c := w.svc.Client(w.t)
	w.t.Cleanup(func() {
		c.Heal()
		assert.NoError(w.t, c.Backend().Close(), "Backend.Close")
	})
	return c
}

// owner is a session, and what it reports. Its methods that are named like those of
// driver.Session in lower case make the call and end the case if it fails.
type owner struct {
	driver.Session
	w      *fixture
	c      Client
	inside atomic.Int32 // watch callbacks that are running

	mu     sync.Mutex
	proofs []proof
	gone   []error
	closed bool
}

// proof is a report of a proof, and when it came.
type proof struct {
	sent, at driver.Instant
	ttl      time.Duration
}

// open opens a session on a client of its own.
func (w *fixture) open() *owner { return w.openOn(w.client()) }

// openOn opens a session that is closed with the case.
func (w *fixture) openOn(c Client) *owner {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.soon())
	defer stop() // a session outlives the context of Open
	o, err := w.tryOpen(ctx, c)
	require.NoError(w.t, err, "Open")
	return o
}

func (w *fixture) tryOpen(ctx context.Context, c Client) (*owner, error) {
	o := &owner{w: w, c: c}
	clock := c.Backend().Clock()
	margin := c.Backend().Profile().Margin(w.h.TTL)
	s, err := c.Backend().Open(ctx, driver.Config{
		TTL:    w.h.TTL,
		Window: w.h.TTL - margin, Margin: c.Backend().Profile().Margin,
		Logger: slog.New(slog.DiscardHandler),
		Proof: func(sent driver.Instant, ttl time.Duration) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.proofs = append(o.proofs, proof{sent: sent, at: clock.Now(), ttl: ttl})
		},
		Gone: func(err error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.gone = append(o.gone, err)
		},
	})
	if err != nil {
		return nil, err
	}
	o.Session = s
	w.t.Cleanup(func() {
		o.mu.Lock()
		closed := o.closed
		o.mu.Unlock()
		if !closed {
			c.Heal()
			assert.NoError(w.t, o.end(), "Session.Close")
		}
	})
	return o, nil
}

// end closes the session. It has a context of its own because it also runs when
// the case's has ended.
//
//nolint:contextcheck // see above
func (o *owner) end() error {
	ctx, stop := context.WithTimeout(context.Background(), o.w.patience())
	defer stop()
	return o.close(ctx)
}

// close closes the session, which the end of the case must not do again.
func (o *owner) close(ctx context.Context) error {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	return o.Close(ctx)
}

// proven returns the proofs so far.
func (o *owner) proven() []proof {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]proof(nil), o.proofs...)
}

// losses is how often Gone was reported.
func (o *owner) losses() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.gone)
}

func (o *owner) join(name string) driver.Joined {
	o.w.t.Helper()
	return o.joinWith(driver.JoinRequest{Line: name})
}

func (o *owner) joinWith(req driver.JoinRequest) driver.Joined {
	o.w.t.Helper()
	j, err := o.Join(o.w.soon(), req)
	require.NoError(o.w.t, err, "Join")
	require.Equal(o.w.t, req.Line, j.Entry.Line, "the entry names its line")
	require.NotEmpty(o.w.t, j.Entry.Key)
	require.Positive(o.w.t, j.Entry.Token, "a join tells the token")
	return j
}

func (o *owner) leave(ref driver.Ref) driver.Left {
	o.w.t.Helper()
	return o.leaveWith(driver.LeaveRequest{Ref: ref})
}

// release gives back a hold that admitted nobody beside it, giveBack one that has
// its name in the ledger.
func (o *owner) release(ref driver.Ref) {
	o.w.t.Helper()
	o.leaveWith(driver.LeaveRequest{Ref: ref, Held: true})
}

func (o *owner) giveBack(ref driver.Ref) {
	o.w.t.Helper()
	o.leaveWith(driver.LeaveRequest{Ref: ref, Held: true, Clean: true})
}

func (o *owner) leaveWith(req driver.LeaveRequest) driver.Left {
	o.w.t.Helper()
	left, err := o.Leave(o.w.soon(), req)
	require.NoError(o.w.t, err, "Leave")
	return left
}

func (o *owner) look(req driver.LookRequest) driver.View {
	o.w.t.Helper()
	v, err := o.Look(o.w.soon(), req)
	require.NoError(o.w.t, err, "Look")
	return v
}

func (w *fixture) list(c Client, name string) []driver.Entry {
	w.t.Helper()
	all, err := c.Backend().List(w.soon(), name, 0)
	require.NoError(w.t, err, "List")
	return all
}

// settle brings a failed Join to a known end, with a context of its own: that of
// the Join has ended.
//
//nolint:contextcheck // see above
func (w *fixture) settle(err error) {
	w.t.Helper()
	var p *driver.PendingError
	if !errors.As(err, &p) {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), w.patience())
	defer stop()
	require.NoError(w.t, p.Settle(ctx), "Settle")
}

// count requires a number of entries at the service, now.
func (w *fixture) count(want int, name, why string) {
	w.t.Helper()
	require.Equal(w.t, want, w.svc.Count(w.t, name), "entries of %q: %s", name, why)
}

// undone requires a number of entries after a join that arrived late: now, or
// soon where the backend can only delete what the join has made.
func (w *fixture) undone(want int, name, why string) {
	w.t.Helper()
	if w.h.Undone {
		w.eventually(func() bool { return w.svc.Count(w.t, name) == want }, why)
	}
	w.count(want, name, why)
}

// eventually waits until a condition holds. It asks in the case's own goroutine,
// so a condition may end the case.
func (w *fixture) eventually(cond func() bool, why string) {
	w.t.Helper()
	deadline := time.Now().Add(w.patience())
	for !cond() {
		if time.Now().After(deadline) {
			require.Fail(w.t, "waited in vain", why)
		}
		time.Sleep(w.short / 100) // asking again is all one can do from outside
	}
}

// receive waits for a signal that must come.
func (w *fixture) receive(from <-chan struct{}, why string) {
	w.t.Helper()
	select {
	case <-from:
	case <-time.After(w.patience()):
		require.Fail(w.t, "waited in vain", why)
	}
}

// prompt runs a call that must return soon after ctx has ended, however the
// network is. A call that does not is given a healthy network, to end the case.
func (w *fixture) prompt(c Client, what string, ended <-chan struct{}, call func()) {
	w.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
		return
	case <-ended:
	}
	late := time.NewTimer(w.h.Prompt)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		assert.Fail(w.t, what+" has not returned "+w.h.Prompt.String()+" after its context ended")
		c.Heal()
		<-done
	}
}

// refs are the names of entries, in their order.
func refs(entries []driver.Entry) []driver.Ref {
	all := make([]driver.Ref, 0, len(entries))
	for _, e := range entries {
		all = append(all, e.Ref)
	}
	return all
}

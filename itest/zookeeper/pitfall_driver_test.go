package zookeeper

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// owner is a service session as the layers above see it, and what it reported.
type owner struct {
	driver.Session
	backend driver.Backend
	log     progtest.Buffer

	mu   sync.Mutex
	gone []error
}

// drive opens a service session.
func drive(t *testing.T, ttl time.Duration, opts zkbackend.Options, servers ...string) *owner {
	t.Helper()
	o := &owner{}
	var err error
	o.backend, err = zkbackend.NewBackend(servers, &opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, o.backend.Close()) })
	o.Session, err = o.backend.Open(recipetest.Bounded(t), driver.Config{
		TTL: ttl, Margin: o.backend.Info().Margin, Logger: o.log.Logger(t),
		Renewed: func(driver.Instant, time.Duration, time.Duration) {},
		Gone: func(err error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.gone = append(o.gone, err)
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), recipetest.Patience)
		defer cancel()
		assert.NoError(t, o.Close(ctx))
	})
	return o
}

// losses returns the errors that Gone was called with.
func (o *owner) losses() []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]error(nil), o.gone...)
}

// join joins a queue.
func (o *owner) join(t *testing.T, queue string) driver.Joined {
	t.Helper()
	return o.joinWith(t, driver.JoinRequest{Queue: queue, Nearest: 2})
}

func (o *owner) joinWith(t *testing.T, req driver.JoinRequest) driver.Joined {
	t.Helper()
	js, err := o.Join(recipetest.Bounded(t), req)
	require.NoError(t, err)
	return js[0]
}

// update changes an entry of the session.
func (o *owner) update(t *testing.T, ref driver.Ref, req driver.UpdateRequest) {
	t.Helper()
	req.Queue, req.Entry = ref.Queue, ref
	_, err := o.Update(recipetest.Bounded(t), req)
	require.NoError(t, err)
}

// admit marks a request for permits as one that holds.
func (o *owner) admit(t *testing.T, ref driver.Ref) {
	t.Helper()
	o.update(t, ref, driver.UpdateRequest{Marks: driver.MarkAdmitted})
}

// write changes the value of an entry.
func (o *owner) write(t *testing.T, ref driver.Ref, value string) {
	t.Helper()
	o.update(t, ref, driver.UpdateRequest{Data: []byte(value)})
}

// queue reads a whole queue.
func (o *owner) queue(t *testing.T, name string) driver.View {
	t.Helper()
	v, err := o.Read(recipetest.Bounded(t), driver.ReadRequest{Queue: name, Marks: true, Detail: true, Fresh: true})
	require.NoError(t, err)
	return v
}

// settle brings what a Join has left unknown to a known end.
func settle(t *testing.T, err error) {
	t.Helper()
	var p *driver.PendingError
	if !errors.As(err, &p) {
		return
	}
	recipetest.Until(t, "an unknown outcome becomes known", func() bool {
		err := p.Settle(recipetest.Bounded(t))
		return err == nil || errors.Is(err, driver.ErrSessionOver) // the entries end with the session
	})
}

// quit leaves a queue without a hold.
func (o *owner) quit(t *testing.T, j driver.Joined) error {
	t.Helper()
	_, err := o.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: j.Entry.Ref})
	return err
}

// TestAnUnansweredCloseEndsTheSession has all replies lost, on any
// connection: each handshake would keep the session for its whole timeout.
func TestAnUnansweredCloseEndsTheSession(t *testing.T) {
	t.Parallel()
	t.Run("one server", func(t *testing.T) {
		e, root := shared(t)
		closeUnanswered(t, e, root, 0)
	})
	t.Run("a follower", func(t *testing.T) {
		e := zktest.New(t, &zktest.Options{Members: 3, MaxSession: recipetest.EventTTL})
		leader, err := e.Leader(recipetest.Bounded(t))
		require.NoError(t, err)
		closeUnanswered(t, e, "/farewell", (leader+1)%3)
	})
}

func closeUnanswered(t *testing.T, e *zktest.Ensemble, root string, member int) {
	conn, proxy := e.Client(t), proxyOf(t, e, member)
	o := drive(t, recipetest.EventTTL, zkbackend.Options{Root: root}, proxy.Addr())
	gone := deletion(t, conn, o.join(t, "x").Entry.Key)
	proxy.Hold(fault.Replies)
	proxy.Reset()

	ctx, cancel := context.WithCancel(recipetest.Bounded(t))
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- o.Close(ctx) }()
	recipetest.Wait(t, gone, "the end of the session, long before it expires")
	cancel()
	require.ErrorIs(t, recipetest.Wait(t, closed, "the end of Close"), driver.ErrUnavailable, "no server has confirmed it")
	proxy.Heal(fault.Replies)
}

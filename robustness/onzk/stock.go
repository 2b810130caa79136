package onzk

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// The lock of go-zookeeper does not report that it is lost; only the state of the connection
// shows it. A careful user treats the loss of the connection as the loss of the lock. A
// careless user waits until the library reports that the session has expired.
const (
	Stock         = "zk.Lock"
	StockCareless = "zk.Lock, session only"
)

// callTimeout bounds how long a call of the library takes to return after its connection is
// closed.
const callTimeout = 5 * time.Second

// stock is a client of zk.Lock.
type stock struct {
	*network
	conn      *zk.Conn
	placeOf   func(path string) int64
	endStates []zk.State // the states of the connection that end a hold
	opened    chan struct{}
	calls     sync.WaitGroup

	mu      sync.Mutex
	opens   sync.Once
	useless bool
	ended   chan struct{} // closed at the next of endStates
}

func openStock(ctx context.Context, n *network, placeOf func(string) int64, endStates []zk.State) (*stock, error) {
	c := &stock{network: n, placeOf: placeOf, endStates: endStates, opened: make(chan struct{}), ended: make(chan struct{})}
	var err error
	servers := n.servers()
	if len(servers) == 1 { // zk.Conn sleeps for a second before it begins its list again
		servers = append(servers, servers[0])
	}
	c.conn, err = connect(servers, trial.TTL, c.dial, c.onEvent) //nolint:contextcheck // it lives until Close
	if err != nil {
		return nil, err
	}
	select {
	case <-c.opened:
		return c, nil
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("onzk: no session: %w", ctx.Err()), c.end())
	}
}

// onEvent handles the states of the connection, in the library's goroutine.
func (c *stock) onEvent(ev zk.Event) {
	if ev.Type != zk.EventSession {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ev.State == zk.StateHasSession {
		c.opens.Do(func() { close(c.opened) })
	}
	if slices.Contains(c.endStates, ev.State) {
		close(c.ended)
		c.ended = make(chan struct{})
		return
	}
}

// Kinds implements trial.Client.
func (c *stock) Kinds() []string { return []string{Create, GetChildren, GetData, Delete, Ping} }

// Acquire implements trial.Client. Lock takes no context. So when ctx ends, Acquire closes the
// connection, and the client is useless.
func (c *stock) Acquire(ctx context.Context, queue history.Queue, req trial.Request) (trial.Hold, error) {
	if queue.Recipe != history.Mutex || req.Shared || req.Within != nil {
		return nil, fmt.Errorf("onzk: %s is a mutex: %w", Stock, errors.ErrUnsupported)
	}
	lock := zk.NewLock(c.conn, folderOf(Stock, queue.Name), zk.WorldACL(zk.PermAll))
	locked := c.call(lock.Lock)
	select {
	case err := <-locked:
		if err != nil {
			return nil, c.failed(err)
		}
		return c.hold(lock), nil
	case <-ctx.Done():
		c.giveUp()
		select {
		case err := <-locked:
			return nil, c.failed(errors.Join(ctx.Err(), err))
		case <-time.After(callTimeout): // the library can block forever
			return nil, c.failed(errors.Join(ctx.Err(), errors.New("onzk: Lock has not returned")))
		}
	}
}

// call makes a call of the library in a goroutine, which ends at the latest with the
// connection.
func (c *stock) call(f func() error) <-chan error {
	result := make(chan error, 1)
	c.calls.Go(func() { result <- f() })
	return result
}

func (c *stock) giveUp() {
	c.mu.Lock()
	c.useless = true
	c.mu.Unlock()
	c.calls.Go(c.conn.Close)
}

func (c *stock) failed(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.useless {
		return fmt.Errorf("%w: %w", trial.ErrUseless, err)
	}
	return err
}

// hold returns the hold of an acquired lock. It ends with the session and the connection of
// now, because the holder does not know earlier ones.
func (c *stock) hold(lock *zk.Lock) *stockHold {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &stockHold{c: c, lock: lock, session: c.conn.SessionID(), done: c.ended}
	// The library does not export the path.
	h.path = reflect.ValueOf(lock).Elem().FieldByName("lockPath").String()
	return h
}

// Close implements trial.Client.
func (c *stock) Close() error { return c.end() }

// end closes the connection, waits for the calls of the library, and closes the network.
func (c *stock) end() error {
	c.giveUp()
	done := make(chan struct{})
	go func() { // ends with the calls
		c.calls.Wait()
		close(done)
	}()
	var stuck error
	select {
	case <-done:
	case <-time.After(callTimeout):
		stuck = errors.New("onzk: a call of the library has not returned")
	}
	return errors.Join(stuck, c.network.Close())
}

// stockHold is a hold of zk.Lock.
type stockHold struct {
	c       *stock
	lock    *zk.Lock
	path    string
	session int64
	done    <-chan struct{}
}

// Token implements trial.Hold: there is none.
func (h *stockHold) Token() int64 { return 0 }

// Place implements trial.Hold.
func (h *stockHold) Place() int64 { return h.c.placeOf(h.path) }

// Entry implements trial.Hold.
func (h *stockHold) Entry() string { return h.path }

// Held implements trial.Hold. A careful user checks that the session with which it locked is
// connected, a careless user only that the session is not known to have ended.
func (h *stockHold) Held() bool {
	select {
	case <-h.done:
		return false
	default:
	}
	if len(h.c.endStates) == 1 {
		return true
	}
	return h.c.conn.State() == zk.StateHasSession && h.c.conn.SessionID() == h.session
}

// Done implements trial.Hold.
func (h *stockHold) Done() <-chan struct{} { return h.done }

// Release implements trial.Hold.
func (h *stockHold) Release(ctx context.Context) (history.Outcome, error) {
	select {
	case err := <-h.c.call(h.lock.Unlock):
		switch {
		case err == nil:
			return history.Released, nil
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrSessionExpired):
			return history.Lost, nil
		}
		return history.Pending, err
	case <-ctx.Done():
		return history.Pending, ctx.Err()
	}
}

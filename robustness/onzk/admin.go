package onzk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/robustness/trial"
)

// pause is the time between two attempts of an operator's request.
const pause = 10 * time.Millisecond

// admin is the client of the operator. It bypasses the proxies.
type admin struct {
	conn  *zk.Conn
	calls sync.WaitGroup
}

// newAdmin connects in the background. The client leaves a stopped member after two thirds
// of the session's timeout.
func newAdmin(e *endpoints) (*admin, error) {
	conn, err := connect(e.Addrs, time.Second, e.dial, nil)
	if err != nil {
		return nil, err
	}
	return &admin{conn: conn}, nil
}

// dialer makes connections.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// connect opens a client that logs nothing.
func connect(servers []string, timeout time.Duration, dial dialer, onEvent zk.EventCallback) (*zk.Conn, error) {
	if onEvent == nil {
		onEvent = func(zk.Event) {}
	}
	dialNow := func(network, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return dial(ctx, network, address)
	}
	conn, _, err := zk.Connect(servers, timeout,
		zk.WithDialer(dialNow), zk.WithEventCallback(onEvent), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("onzk: %w", err)
	}
	return conn, nil
}

type silent struct{}

// Printf discards what the library logs.
func (silent) Printf(string, ...any) {}

// call makes a call of the library, which takes no context. If ctx ends first, the call
// goes on in its goroutine until the connection ends.
func call[T any](ctx context.Context, a *admin, f func(*zk.Conn) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	answers := make(chan answer, 1)
	a.calls.Go(func() {
		v, err := f(a.conn)
		answers <- answer{v, err}
	})
	select {
	case r := <-answers:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// retry repeats a call until the server answers it, or ctx ends.
func retry[T any](ctx context.Context, a *admin, f func(*zk.Conn) (T, error)) (T, error) {
	for {
		v, err := call(ctx, a, f)
		if err == nil || isAnswer(err) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// isAnswer reports whether an error is the server's answer to the request.
func isAnswer(err error) bool {
	for _, known := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// createNode creates a node, unless it exists.
func (a *admin) createNode(ctx context.Context, path string) error {
	_, err := retry(ctx, a, func(c *zk.Conn) (string, error) {
		return c.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// mark makes a transaction, and returns its zxid.
func (a *admin) mark(ctx context.Context) (int64, error) {
	stat, err := retry(ctx, a, func(c *zk.Conn) (*zk.Stat, error) { return c.Set(markPath, nil, -1) })
	if err != nil {
		return 0, err
	}
	return stat.Mzxid, nil
}

// children returns the current children of a node; none if the node does not exist.
func (a *admin) children(ctx context.Context, path string) ([]string, error) {
	names, err := retry(ctx, a, func(c *zk.Conn) ([]string, error) {
		if _, err := c.Sync("/"); err != nil {
			return nil, err
		}
		names, _, err := c.Children(path)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// czxid returns the zxid that created a node; 0 if it is not known.
func (a *admin) czxid(ctx context.Context, path string) int64 {
	stat, err := retry(ctx, a, func(c *zk.Conn) (*zk.Stat, error) {
		_, stat, err := c.Get(path)
		return stat, err
	})
	if err != nil {
		return 0
	}
	return stat.Czxid
}

func (a *admin) close() {
	a.conn.Close()
	a.calls.Wait()
}

// endSession ends a session. ZooKeeper has no command for that, but any client that knows
// the password of a session can close it. This breaks the connection of the owner, which
// may connect again before the session is closed, so endSession repeats it until the servers
// report that the session does not exist.
func endSession(ctx context.Context, e *endpoints, id int64, password string) error {
	var last error
	for attempt, sent := 0, false; ; attempt++ {
		state, err := closeSession(ctx, e, attempt%len(e.Addrs), id, password)
		switch {
		case err != nil:
			last = err
		case state == closed && sent:
			return nil
		case state == closed:
			return errors.New("the session does not exist")
		}
		sent = sent || state == maybeClosed
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case <-time.After(pause):
		}
	}
}

// closing is the result of closeSession.
type closing int

const (
	notSent     closing = iota // nothing was sent
	maybeClosed                // the request was sent, and the session may be closed
	closed                     // the session does not exist
)

// closeSession connects to a member, takes the session over and closes it.
func closeSession(ctx context.Context, e *endpoints, member int, id int64, password string) (closing, error) {
	ctx, cancel := context.WithTimeout(ctx, trial.TTL/2) // the member may be stopped
	defer cancel()
	socket, err := e.dial(ctx, "tcp", e.Addrs[member])
	if err != nil {
		return notSent, err
	}
	defer func() { _ = socket.Close() }()
	defer context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })()
	if _, err := socket.Write(zkframe.End(id, password, trial.TTL)); err != nil {
		return maybeClosed, err
	}
	reply, err := zkframe.Read(socket)
	if err != nil {
		return maybeClosed, err
	}
	session, _ := reply.Identity()
	if session == 0 {
		return closed, nil
	}
	// The server closes the connection when it has closed the session. The next call of
	// closeSession checks that it has.
	_, _ = io.Copy(io.Discard, socket)
	return maybeClosed, nil
}

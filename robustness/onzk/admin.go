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

// pause is between two attempts at what an operator asks.
const pause = 10 * time.Millisecond

// admin is the operator, past the proxies.
type admin struct {
	conn  *zk.Conn
	calls sync.WaitGroup
}

// newAdmin connects in the background. A member that is stopped is given up after
// two thirds of the session's timeout.
func newAdmin(addrs []string) (*admin, error) {
	conn, err := connect(addrs, time.Second, net.DialTimeout, nil)
	if err != nil {
		return nil, err
	}
	return &admin{conn: conn}, nil
}

// connect makes a client that says nothing.
func connect(servers []string, timeout time.Duration, dial zk.Dialer, heed zk.EventCallback) (*zk.Conn, error) {
	if heed == nil {
		heed = func(zk.Event) {}
	}
	conn, _, err := zk.Connect(servers, timeout,
		zk.WithDialer(dial), zk.WithEventCallback(heed), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("onzk: %w", err)
	}
	return conn, nil
}

type silent struct{}

// Printf throws away what the library logs.
func (silent) Printf(string, ...any) {}

// ask makes a call of the library, which knows no contexts. What it leaves behind
// ends with the connection.
func ask[T any](ctx context.Context, a *admin, call func(*zk.Conn) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	answers := make(chan answer, 1)
	a.calls.Go(func() {
		v, err := call(a.conn)
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

// insist repeats a call until its outcome is known, or ctx ends.
func insist[T any](ctx context.Context, a *admin, call func(*zk.Conn) (T, error)) (T, error) {
	for {
		v, err := ask(ctx, a, call)
		if err == nil || settled(err) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// settled says that an error is the server's answer.
func settled(err error) bool {
	for _, known := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// folder makes a node, unless it is there.
func (a *admin) folder(ctx context.Context, path string) error {
	_, err := insist(ctx, a, func(c *zk.Conn) (string, error) {
		return c.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// mark makes a transaction, and returns its number.
func (a *admin) mark(ctx context.Context) (int64, error) {
	stat, err := insist(ctx, a, func(c *zk.Conn) (*zk.Stat, error) { return c.Set(markPath, nil, -1) })
	if err != nil {
		return 0, err
	}
	return stat.Mzxid, nil
}

// children reads a folder as it is now; none if it is not there.
func (a *admin) children(ctx context.Context, path string) ([]string, error) {
	names, err := insist(ctx, a, func(c *zk.Conn) ([]string, error) {
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

// czxid is when a node was made; 0 if it is not known.
func (a *admin) czxid(ctx context.Context, path string) int64 {
	stat, err := insist(ctx, a, func(c *zk.Conn) (*zk.Stat, error) {
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

// endSession ends a session as anybody can who knows its password: ZooKeeper has
// no command for it. Its owner, whose connection breaks by that, may come between,
// so it is done until the servers know it no more.
func endSession(ctx context.Context, addrs []string, id int64, password string) error {
	var last error
	for try, asked := 0, false; ; try++ {
		there, err := visit(ctx, addrs[try%len(addrs)], id, password)
		switch {
		case err != nil:
			last = err
		case there == gone && asked:
			return nil
		case there == gone:
			return errors.New("there is no such session")
		}
		asked = asked || there == perhaps
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case <-time.After(pause):
		}
	}
}

// presence is what a visit has found.
type presence int

const (
	unvisited presence = iota // nothing was sent
	perhaps                   // it was asked to end, and may have
	gone
)

// visit goes on with a session on one member and closes it.
func visit(ctx context.Context, addr string, id int64, password string) (presence, error) {
	ctx, cancel := context.WithTimeout(ctx, trial.TTL/2) // the member may be stopped
	defer cancel()
	socket, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return unvisited, err
	}
	defer func() { _ = socket.Close() }()
	defer context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })()
	if _, err := socket.Write(zkframe.End(id, password, trial.TTL)); err != nil {
		return perhaps, err
	}
	hello, err := zkframe.Read(socket)
	if err != nil {
		return perhaps, err
	}
	if session, _ := hello.Identity(); session == 0 {
		return gone, nil
	}
	// The server closes it when it has answered, if it does; the next visit shows.
	_, _ = io.Copy(io.Discard, socket)
	return perhaps, nil
}

package zktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/internal/hang"
)

// ClientOptions are the options of NewClient. Nil is the same as the zero value.
type ClientOptions struct {
	// Endpoints are the addresses to choose from. Nil means all members, past their
	// proxies.
	Endpoints []string

	// Session is the requested timeout. 0 means 10 s.
	Session time.Duration

	// Dialer makes the connections, with Options.TLS including their TLS. Nil means a
	// plain one, which with Options.TLS is the user "CN=client".
	Dialer zk.Dialer

	// OnEvent is called for every event of the session and must not block. It may be
	// nil.
	OnEvent zk.EventCallback
}

// Client returns a client of all members that bypasses their proxies, to read the state
// whatever the test breaks. It is connected. The client is closed when the test ends, before
// an ensemble that New started earlier. Client fails the test if it cannot make one, or if
// all members are dead or stopped.
func (e *Ensemble) Client(t testing.TB) *zk.Conn {
	t.Helper()
	conn, err := e.NewClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := e.connected(hang.Context(t), conn); err != nil {
		t.Fatalf("zktest: connect a client: %v", err)
	}
	return conn
}

// connected returns when a member has accepted a client, which makes its first request here.
// The library gives a request up if no member accepts the client within a second, as on a
// busy machine.
func (e *Ensemble) connected(ctx context.Context, conn *zk.Conn) error {
	for {
		_, _, err := conn.Exists("/")
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return cmp.Or(context.Cause(ctx), err)
		case !errors.Is(err, zk.ErrNoServer) && !errors.Is(err, zk.ErrConnectionClosed):
			return err
		case e.dead():
			return fmt.Errorf("all members are dead: %w", err)
		}
	}
}

// dead reports whether all members have ended.
func (e *Ensemble) dead() bool {
	for _, m := range e.members {
		select {
		case <-m.running().Done():
		default:
			return false
		}
	}
	return true
}

// NewClient returns a client that logs nothing. It connects in the background: its first
// request waits for that. The caller closes it.
func (e *Ensemble) NewClient(opts *ClientOptions) (*zk.Conn, error) {
	var o ClientOptions
	if opts != nil {
		o = *opts
	}
	if o.Endpoints == nil {
		for _, m := range e.members {
			o.Endpoints = append(o.Endpoints, m.Direct())
		}
	}
	if len(o.Endpoints) == 1 {
		// The library sleeps a second before it begins its list again, and a
		// list of one begins again with every reconnection.
		o.Endpoints = []string{o.Endpoints[0], o.Endpoints[0]}
	}
	if o.Session == 0 {
		o.Session = 10 * time.Second
	}
	if o.Dialer == nil {
		o.Dialer = e.dialNow
	}
	if o.OnEvent == nil {
		o.OnEvent = func(zk.Event) {}
	}
	dial := func(network, address string, timeout time.Duration) (net.Conn, error) {
		nc, err := o.Dialer(network, address, timeout)
		if err != nil {
			return nil, err
		}
		return &impatient{Conn: nc}, nil
	}
	conn, _, err := zk.Connect(o.Endpoints, o.Session,
		zk.WithDialer(dial), zk.WithEventCallback(o.OnEvent), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("zktest: client: %w", err)
	}
	return conn, nil
}

// dialNow is the default of ClientOptions.Dialer.
//
//nolint:contextcheck // the library gives its dialers a timeout and no context
func (e *Ensemble) dialNow(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return e.dial(ctx, network, address)
}

// impatient is a connection on which the handshake has as long as any other answer. A server
// of 3.8.0 that is starting sometimes accepts a connection and never reads from it, and the
// library waits for an answer to the handshake ten times as long: 67 s by default.
type impatient struct {
	net.Conn
	handshake sync.Once
}

// SetReadDeadline sets the deadline, of which the first is that of the handshake.
func (c *impatient) SetReadDeadline(t time.Time) error {
	c.handshake.Do(func() { t = time.Now().Add(time.Until(t) / 10) })
	return c.Conn.SetReadDeadline(t)
}

type silent struct{}

// Printf throws away what the library logs.
func (silent) Printf(string, ...any) {}

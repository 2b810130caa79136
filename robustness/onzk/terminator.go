package onzk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/robustness/trial"
)

// terminator is between a client's proxy and a member that requires TLS. The client's TLS ends
// here, behind the proxy, so that the faults of the proxy meet it. The terminator speaks TLS to
// the member itself, and inspects the packets between the two.
type terminator struct {
	net.Listener
	n      *network
	member int
	stop   context.CancelFunc
	conns  sync.WaitGroup // and accept
}

// terminate starts a terminator. Its goroutines end with close.
func (n *network) terminate(member int) (*terminator, error) {
	ctx, stop := context.WithCancel(context.Background())
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		stop()
		return nil, fmt.Errorf("onzk: %w", err)
	}
	t := &terminator{Listener: l, n: n, member: member, stop: stop}
	t.conns.Go(func() { t.accept(ctx) })
	return t, nil
}

// accept accepts connections until close.
func (t *terminator) accept(ctx context.Context) {
	for {
		client, err := t.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of file descriptors, or the proxy disconnected at once
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		default:
			t.conns.Go(func() { t.serve(ctx, client) }) // ends with either side, or with close
		}
	}
}

// serve passes packets on until either side ends its connection, or ctx ends. It ends the sockets
// below TLS, as the backend does: to end TLS itself may take until the other side reads.
func (t *terminator) serve(ctx context.Context, socket net.Conn) {
	defer func() { _ = socket.Close() }()
	client := tls.Server(socket, t.n.endpoints.tls)
	if client.HandshakeContext(ctx) != nil {
		return
	}
	member, err := t.dial(ctx)
	if err != nil {
		return
	}
	end := func() {
		_ = socket.Close()
		_ = socketOf(member).Close()
	}
	defer context.AfterFunc(ctx, end)()
	inspected := t.n.inspect(member, t.member)
	var replies sync.WaitGroup
	replies.Go(func() {
		defer end()
		_, _ = io.Copy(client, inspected)
	})
	for {
		f, err := zkframe.Read(client)
		if err == nil {
			_, err = inspected.Write(f)
		}
		if err != nil {
			break
		}
	}
	end()
	replies.Wait()
	_ = inspected.Close() // the network learns that the connection has ended
}

// dial connects to the member, which may be stopped.
func (t *terminator) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, trial.TTL/2)
	defer cancel()
	return t.n.endpoints.dial(ctx, "tcp", t.n.endpoints.Addrs[t.member])
}

// socketOf returns the socket below a connection.
func socketOf(c net.Conn) net.Conn {
	if secure, ok := c.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return c
}

// close ends all connections.
func (t *terminator) close() error {
	t.stop()
	err := t.Close()
	t.conns.Wait()
	return err
}

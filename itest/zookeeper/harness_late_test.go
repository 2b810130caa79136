package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// keptRequest is a request that a client has sent on a connection that broke,
// and that the server has not worked on yet.
type keptRequest struct {
	request zkframe.Frame
	logins  []byte        // that were sent before it
	session zkframe.Frame // the answer to the connection's handshake
	addr    string        // the client's way to the server
}

func (c *zkClient) keep(k keptRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, k)
}

// Deliver has the servers work on the requests that were kept. A server with
// Netty does that by itself, at a time that no test can choose. So each request is
// sent on a connection that takes the session over: to the service it is a request
// of that session which comes after those of the newer connection.
func (c *zkClient) Deliver() {
	c.mu.Lock()
	kept := c.kept
	c.kept = nil
	c.mu.Unlock()
	c.svc.gate.Lock() // the client would take its session back between handshake and request
	defer c.svc.gate.Unlock()
	for _, k := range kept {
		for try := 0; ; try++ {
			err := c.deliver(k)
			if err == nil {
				break
			}
			if try > 100 {
				panic(fmt.Sprintf("a request that was kept is not answered: %v", err))
			}
		}
	}
}

// dial makes a connection to a server. It does the TLS too: the harness applies
// faults to single requests, and has to see them.
func (s *zkService) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.tls == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return (&tls.Dialer{Config: s.tls}).DialContext(ctx, network, address)
}

// deliver sends one request, unless its session has ended.
func (c *zkClient) deliver(k keptRequest) error {
	ctx, stop := context.WithTimeout(context.Background(), recipetest.Patience)
	defer stop()
	member := c.svc.ensemble.Member(slices.Index(c.servers, k.addr))
	socket, err := c.svc.dial(ctx, "tcp", member.Direct())
	if err != nil {
		return err
	}
	defer socket.Close()
	if err := socket.SetDeadline(time.Now().Add(recipetest.Patience)); err != nil {
		return err
	}
	session, password := k.session.Identity()
	timeout := time.Duration(k.session.Number(8)) * time.Millisecond
	if _, err := socket.Write(zkframe.Resume(session, password, timeout)); err != nil {
		return err
	}
	handshake, err := zkframe.Read(socket)
	if err != nil {
		return err
	}
	if alive, _ := handshake.Identity(); alive == 0 {
		return nil
	}
	if _, err := socket.Write(append(slices.Clone(k.logins), k.request...)); err != nil {
		return err
	}
	for {
		f, err := zkframe.Read(socket)
		switch {
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case f.Xid() == k.request.Xid():
			return nil
		}
	}
}

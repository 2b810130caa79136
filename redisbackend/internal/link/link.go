// Package link keeps connections to the one server that takes writes of a root: it finds that
// server, connects, and connects again.
//
// The client library would do both too. It is not used for that, because its connections stay with
// a server that was demoted, its calls wait for connections that others make, also when their
// context has ended, and in a cluster it connects to every node.
package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/session/driver"
)

// dialTimeout bounds the making of a connection, up to the answer to the login: the next attempt goes
// to another server.
const dialTimeout = 2 * time.Second

// ErrClosed is returned by a Line that was closed.
var ErrClosed = errors.New("the backend is closed")

// A Node is a connection to one server.
type Node struct {
	rueidis.Client

	// Addr is the address of the server.
	Addr string

	answered atomic.Int64 // when the newest answer came

	mu    sync.Mutex
	conns []net.Conn
	shut  bool
}

// Answered takes in that an answer has come.
func (n *Node) Answered(at driver.Instant) { n.answered.Store(int64(at)) }

// Silent reports whether nothing was answered since a moment.
func (n *Node) Silent(since driver.Instant) bool { return driver.Instant(n.answered.Load()) < since }

// kept takes in a connection of the client.
func (n *Node) kept(conn net.Conn) net.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.shut {
		_ = conn.Close() // the client sees that
	}
	n.conns = append(n.conns, conn)
	return conn
}

// close ends all connections at once, and what waits for an answer on them. The client waits for a
// second to say good-bye to a server that is silent, so that is left to a goroutine.
func (n *Node) close() {
	n.mu.Lock()
	n.shut = true
	for _, conn := range n.conns {
		_ = conn.Close() // nothing depends on it
	}
	n.mu.Unlock()
	if n.Client != nil {
		go n.Client.Close()
	}
}

// A Line is one connection to the server that takes writes. It is made when it is first asked for,
// and again after Drop. It is safe for concurrent use.
type Line struct {
	finder *Finder

	mu     sync.Mutex
	node   *Node
	making chan struct{} // closed when a connection that is being made was made or not; nil if none is
	err    error         // of the newest one that was not made
	shut   bool
}

// NewLine returns a line to the server that a finder finds.
func NewLine(f *Finder) *Line { return &Line{finder: f} }

// Node returns the connection. It returns when ctx ends; a connection that is being made then is for
// the next caller.
func (l *Line) Node(ctx context.Context) (*Node, error) {
	for {
		l.mu.Lock()
		if l.shut || l.node != nil {
			defer l.mu.Unlock()
			if l.shut {
				return nil, ErrClosed
			}
			return l.node, nil
		}
		first := l.making == nil
		if first {
			l.making = make(chan struct{})
			go l.make(l.making) //nolint:contextcheck // it is for the next callers too
		}
		made := l.making
		l.mu.Unlock()
		select {
		case <-made:
		case <-ctx.Done():
			return nil, errNoServer(strings.Join(l.finder.Addresses(), ", "), ctx.Err())
		}
		l.mu.Lock()
		err := l.err
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// make makes the connection. It ends with dialTimeout.
func (l *Line) make(made chan struct{}) {
	node, err := l.finder.connect(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.making, l.err = nil, err
	switch {
	case err != nil:
	case l.shut:
		node.close()
	default:
		l.node = node
	}
	close(made)
}

// Drop gives a connection up: it broke, does not answer, or is to a server that does not take writes. moved
// is the address of the one that does, if the server has named it. What waits for an answer gets an error.
func (l *Line) Drop(n *Node, moved string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.node != n {
		return
	}
	l.node = nil
	l.finder.failed(n.Addr, moved)
	n.close()
}

// Close ends the line.
func (l *Line) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = true
	if l.node != nil {
		l.node.close()
		l.node = nil
	}
}

// Subscriber is a connection on which notices arrive.
type Subscriber struct {
	rueidis.DedicatedClient

	// Broken receives the reason when the connection broke, or is closed. It breaks with that of the node.
	Broken <-chan error
}

// Subscribe makes a connection for notices, next to that of the node. message is called for each, one
// at a time, and must not block. Subscribe returns when ctx ends.
func (n *Node) Subscribe(ctx context.Context, message func(channel, payload string)) (*Subscriber, error) {
	made := make(chan *Subscriber, 1)
	go func() { // the client dials with a context of its own
		d, _ := n.Client.Dedicate()
		made <- &Subscriber{DedicatedClient: d, Broken: d.SetPubSubHooks(rueidis.PubSubHooks{
			OnMessage: func(m rueidis.PubSubMessage) { message(m.Channel, m.Message) },
		})}
	}()
	select {
	case s := <-made:
		return s, nil
	case <-ctx.Done():
		go func() { (<-made).End() }()
		return nil, driver.ContextError(ctx)
	}
}

// End closes the connection. It does not block.
func (s *Subscriber) End() { go s.DedicatedClient.Close() }

// errNoServer is why there is no connection.
func errNoServer(addr string, err error) error { return fmt.Errorf("connect to %s: %w", addr, err) }

package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// leastDial is the least time that one server gets to answer. A connection that ends sooner, and has answered no
// request of the session, was of no use.
const leastDial = 250 * time.Millisecond

// The pauses between attempts in a row that bring nothing: a session makes at most one a second then. While it may
// still be there at the service, the pauses are not longer than an eighth of its TTL.
const (
	minPause = 10 * time.Millisecond
	maxPause = time.Second
)

// dialer makes sockets to the servers, one after the other. All attempts of a session go through it, also those of
// Close, so the pauses between them hold for all.
type dialer struct {
	cfg *Config

	mu sync.Mutex

	// next is the server before the next attempt. It begins at random, so that sessions spread over the
	// servers, and only rises.
	next int

	// why is the error of the last attempt; nil if it succeeded. A call whose context ends shows it.
	why error

	// vain is how many attempts in a row have brought no connection that was of use. An attempt raises it
	// before it is known whether it will; succeeded resets it.
	vain int
}

// finalError is an error that would be the same at another server, so each gives up: the service has no such session,
// or refuses the login. It changes nothing of the error's text.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func isFinal(err error) bool {
	_, final := errors.AsType[finalError](err)
	return final
}

// each opens a socket to one address of the servers after the other and calls f with it, until f succeeds
// or returns a finalError, or ctx ends. One address gets a limited time: then the context of f ends, and the
// socket is closed. Between attempts are pauses of at most longest, see pause.
//
// The limit is TTL/8 in the first pass over the servers, and 250 ms at least: so a session that has lost its server
// meets a few others within its TTL. It doubles in the second and third pass, for servers that are only slow.
func (d *dialer) each(ctx context.Context, ttl, longest time.Duration,
	f func(ctx context.Context, socket net.Conn, addr string) error,
) error {
	failures := map[string]error{}
	for pass := 0; ; pass++ {
		for range d.cfg.Servers {
			server := d.server()
			for _, addr := range d.resolve(ctx, server) {
				wait := d.pause(longest)
				if wait > 0 && !driver.Sleep(ctx, d.cfg.Clock, wait) {
					return d.unreachable(ctx, failures)
				}
				err := d.once(ctx, max(ttl/8, leastDial)<<min(pass, 2), server, addr, f)
				if err == nil || isFinal(err) {
					return err
				}
				if ctx.Err() != nil {
					return d.unreachable(ctx, failures)
				}
				why, ok := errors.AsType[net.Error](err)
				if failures[addr] == nil || !ok || !why.Timeout() {
					failures[addr] = err // a timeout explains less than an earlier reason
				}
			}
		}
	}
}

// pause counts an attempt, and returns how long to wait before it: not at all after a connection was lost until each
// server was tried once, and then longer each time. With n servers:
//
//	attempt        pause
//	1 to n+1       none: the first made the connection that was lost
//	n+2            10 to 15 ms
//	each further   twice as long, up to longest and a half
func (d *dialer) pause(longest time.Duration) time.Duration {
	d.mu.Lock()
	n := d.vain - len(d.cfg.Servers) - 1
	d.vain++
	d.mu.Unlock()
	if n < 0 {
		return 0
	}
	pause := min(minPause<<min(n, 10), longest)
	return pause + driver.Jitter(d.cfg.Clock, pause/2)
}

// succeeded is called when a connection was of use: the next one is made at once.
func (d *dialer) succeeded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.vain = 0
}

// once makes one attempt of each. f owns the socket if it succeeds.
func (d *dialer) once(ctx context.Context, limit time.Duration, server, addr string,
	f func(ctx context.Context, socket net.Conn, addr string) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	socket, err := d.socket(ctx, server, addr)
	if err == nil {
		stop := context.AfterFunc(ctx, func() { cut(socket) })
		err = f(ctx, socket, addr)
		stop()
		if err != nil {
			cut(socket)
		}
	}
	if err != nil && !isFinal(err) && ctx.Err() != nil {
		err = fmt.Errorf("no answer: %w", ctx.Err())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.why = err
	return err
}

// server returns the next server.
func (d *dialer) server() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	return d.cfg.Servers[d.next%len(d.cfg.Servers)]
}

// failure returns why the last attempt failed, or nil.
func (d *dialer) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.why
}

// socket opens a socket, with TLS if that is wanted.
func (d *dialer) socket(ctx context.Context, server, addr string) (net.Conn, error) {
	dial := d.cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	socket, err := dial(ctx, "tcp", addr)
	if err != nil || d.cfg.TLS == nil {
		return socket, err //nolint:wrapcheck // net's errors name the server
	}
	cfg := d.cfg.TLS().Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(server)
	}
	secure := tls.Client(socket, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		cut(socket)
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			err = fmt.Errorf("%w: the server closed the connection in the handshake: it speaks no TLS there, or it has "+
				"too many connections from here", err)
		}
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secure, nil
}

// cut closes a connection at once. tls.Conn.Close would send an alert first, which may take five seconds.
func cut(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	_ = c.Close()
}

// resolve returns the addresses of a server. A name may have several. net.Dialer would connect to the first
// that accepts, again and again, although that server answers no handshake.
func (d *dialer) resolve(ctx context.Context, server string) []string {
	host, port, err := net.SplitHostPort(server)
	if err != nil || net.ParseIP(host) != nil || d.cfg.Dial != nil {
		return []string{server}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil || len(addrs) == 0 {
		return []string{server} // the dialer returns the error
	}
	for i, a := range addrs {
		addrs[i] = net.JoinHostPort(a, port)
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return addrs
}

// unreachable returns the error of a context that ended, with the reason for each address.
func (d *dialer) unreachable(ctx context.Context, failures map[string]error) error {
	all := []error{fmt.Errorf("no answer from %s: %w", strings.Join(d.cfg.Servers, ", "), driver.ContextError(ctx))}
	for addr, err := range failures {
		all = append(all, fmt.Errorf("%s: %w", addr, err))
	}
	return driver.JoinErrors(all...)
}

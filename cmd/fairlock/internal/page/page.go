// Package page serves the page of a session on an address that only this machine reaches,
// unless more is asked for.
package page

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
)

// shutdownTimeout bounds the requests that are open when the page ends.
const shutdownTimeout = time.Second

// Serve serves a page until ctx ends; it then returns exit.Interrupted. When it
// returns, the server is closed.
//
//nolint:contextcheck // the server ends in an orderly way although ctx has ended
func Serve(ctx context.Context, l net.Listener, page http.Handler) error {
	server := &http.Server{
		Handler: page, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, // so that open pages end with it
		ErrorLog:    log.New(io.Discard, "", 0),                        // such errors are of clients that disconnect
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }() // ends with Shutdown or Close
	select {
	case err := <-served:
		return exit.Errorf(exit.Failed, "serve the page: %w", err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if server.Shutdown(bounded) != nil {
		_ = server.Close() // a client does not read its answer
	}
	err := <-served
	if !errors.Is(err, http.ErrServerClosed) {
		return exit.Errorf(exit.Failed, "serve the page: %w", err)
	}
	return exit.Silently(exit.Interrupted)
}

// FreePort is the address to listen on without a flag.
const FreePort = "127.0.0.1:0"

// Address is where a page listens.
type Address struct {
	Listen string   // host:port
	Names  []string // of hosts, in addition to those of Listen
	Remote bool     // whether Listen may be an address that other machines reach
}

// Socket listens.
func (a *Address) Socket(ctx context.Context) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.Listen)
	if err != nil {
		return nil, exit.Errorf(exit.Failed, "--listen %s: %w", a.Listen, err)
	}
	return l, nil
}

// Hosts returns the host names that the page answers to. It is an error if other machines
// could reach the page and Remote is false.
func (a *Address) Hosts(ctx context.Context) ([]string, error) {
	host, port, err := net.SplitHostPort(a.Listen)
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "--listen %s: want HOST:PORT, such as 127.0.0.1:8080", a.Listen)
	}
	var ips []net.IPAddr
	if host != "" {
		ips, err = net.DefaultResolver.LookupIPAddr(ctx, host)
		if err != nil {
			return nil, exit.Errorf(exit.Usage, "--listen %s: %w", a.Listen, err)
		}
	}
	loopback := len(ips) > 0
	anywhere := host == ""
	for _, ip := range ips {
		loopback = loopback && ip.IP.IsLoopback()
		anywhere = anywhere || ip.IP.IsUnspecified()
	}
	if !loopback && !a.Remote {
		return nil, exit.Errorf(exit.Usage, "--listen %s: others could reach the page there, and it has no login: listen on 127.0.0.1:%s, or add --allow-remote", a.Listen, port)
	}
	all := append([]string{"localhost", "127.0.0.1", "::1", host}, a.Names...)
	if !anywhere {
		return all, nil
	}
	if name, err := os.Hostname(); err == nil {
		all = append(all, name)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return nil, exit.Errorf(exit.Failed, "--listen %s: %w", a.Listen, err)
	}
	for _, address := range own {
		if n, ok := address.(*net.IPNet); ok {
			all = append(all, n.IP.String())
		}
	}
	return all, nil
}

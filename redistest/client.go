package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/internal/hang"
)

// URL returns the URL of the server for the user "default", without a password.
func (s *Server) URL() string { return s.URLAs("", "") }

// URLAs returns the URL of the server for a user. Both are "" for the user "default" without a
// password. With TLS, the client must trust Server.CA.
func (s *Server) URLAs(user, password string) string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.opts.TLS {
		u.Scheme = "rediss"
	}
	if user != "" || password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// Socket returns the path of the server's socket. It takes neither TLS nor goes through a proxy.
func (s *Server) Socket() string { return s.socket() }

// Client returns a client through the server's socket, which may do anything. It is closed when
// the test ends, before a server that New started earlier. Client fails the test if it cannot
// connect.
func (s *Server) Client(t testing.TB) rueidis.Client {
	t.Helper()
	c, err := s.Connect(hang.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Connect returns a client through the server's socket, which may do anything and repeats
// nothing. ctx bounds only the first connection; the client makes another after a restart. The
// caller closes it.
func (s *Server) Connect(ctx context.Context) (rueidis.Client, error) {
	c, free, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	free()
	return c, nil
}

// connect returns a client whose connection the end of ctx closes until free is called: the
// client's own handshake and Close do not end with a context.
func (s *Server) connect(ctx context.Context) (c rueidis.Client, free func(), err error) {
	var connected atomic.Bool
	free = func() {}
	option := rueidis.ClientOption{
		InitAddress: []string{s.listen},
		DialCtxFn: func(later context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if connected.Load() {
				return d.DialContext(later, "unix", s.socket())
			}
			nc, err := d.DialContext(ctx, "unix", s.socket())
			if err != nil {
				return nil, err
			}
			stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
			free = func() { stop() }
			return nc, nil
		},
		// Without a bound of its own, and without requests of its own.
		Dialer:           net.Dialer{Timeout: time.Hour, KeepAlive: -1},
		ConnWriteTimeout: time.Hour,

		ForceSingleClient:   true,
		PipelineMultiplex:   -1, // one connection
		AlwaysPipelining:    true,
		DisableRetry:        true,
		DisableCache:        true,
		ClientSetInfo:       rueidis.DisableClientSetInfo,
		RingScaleEachConn:   8,
		ReadBufferEachConn:  4 << 10,
		WriteBufferEachConn: 4 << 10,
	}
	if s.role.kind != sentinel { // Sentinels have no users
		option.Username, option.Password = admin, s.role.secret
	}
	c, err = rueidis.NewClient(option)
	if err == nil {
		connected.Store(true)
		return c, free, nil
	}
	free()
	if c != nil {
		c.Close()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, nil, fmt.Errorf("redistest: connect: %w", err)
}

// Do runs a command on a connection of its own, as a user who may do anything. On a Sentinel too.
func (s *Server) Do(ctx context.Context, command ...string) rueidis.RedisResult {
	c, free, err := s.connect(ctx)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	defer free()
	defer c.Close()
	return c.Do(ctx, c.B().Arbitrary(command...).Build())
}

// Info returns the fields of a section of INFO, such as "replication". It asks again if the server
// closes the connection, as Sentinels make it do when they change its master.
func (s *Server) Info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.Do(ctx, "INFO", section).ToString()
	for attempt := 1; attempt < 3 && lost(err); attempt++ {
		text, err = s.Do(ctx, "INFO", section).ToString()
	}
	if err != nil {
		return nil, fmt.Errorf("redistest: info: %w", err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // the format, in RESP3
		name, value, found := strings.Cut(strings.TrimSpace(line), ":")
		if found {
			fields[name] = value
		}
	}
	return fields, nil
}

// lost reports whether a connection has ended that was made.
func lost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// CPU returns the time that all threads of the server have computed since it was started.
func (s *Server) CPU(ctx context.Context) (time.Duration, error) {
	fields, err := s.Info(ctx, "cpu")
	if err != nil {
		return 0, err
	}
	var all float64
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(fields[field], 64)
		if err != nil {
			return 0, fmt.Errorf("redistest: info: %w", err)
		}
		all += seconds
	}
	return time.Duration(all * float64(time.Second)), nil
}

// until returns when ok does, or with its error. It fails when ctx ends.
func until(ctx context.Context, ok func() (bool, error)) error {
	for {
		done, err := ok()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

package mysqltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/internal/testserver"
)

const (
	pollEvery = 5 * time.Millisecond
	database  = "test"
	readyLine = "ready for connections"
)

var errClosed = errors.New("the server is closed")

// Server is a process of MariaDB. Its methods are safe for concurrent use.
type Server struct {
	opts Options
	dir  *testserver.Dir
	data string // the data directory
	addr string

	close func() error

	mu      sync.Mutex
	process *process.Process // nil before it is started
	closed  bool             // no process may be started any more
}

// New starts a server for a test, and closes it after the test and all cleanups that were
// registered later. It fails the test if the server does not start.
func New(t testing.TB, opts *Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Start starts a server and returns when it serves clients. If its process ends, if there is
// no progress within Options.StartTimeout, or if ctx ends, Start returns the reason with the
// end of the server's log, and leaves nothing behind. ctx bounds only the start.
func Start(ctx context.Context, opts *Options) (*Server, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		s := newServer(o)
		err := s.begin(ctx)
		if err == nil {
			return s, nil
		}
		if attempt == 5 || !testserver.PortTaken(err) {
			return nil, err
		}
	}
}

func newServer(opts Options) *Server {
	s := &Server{opts: opts}
	s.close = sync.OnceValue(s.shutdown)
	return s
}

// begin is one attempt at Start, with a port of its own. It leaves nothing behind when it fails.
func (s *Server) begin(ctx context.Context) error {
	err := s.prepare(ctx)
	if err == nil {
		err = s.launch(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// prepare makes everything that the server needs before it can start.
func (s *Server) prepare(ctx context.Context) (err error) {
	s.dir, err = testserver.MakeDir("mysqltest", !s.opts.Disk)
	if err != nil {
		return err
	}
	s.data = filepath.Join(s.dir.Path(), "data")
	addrs, err := s.dir.Ports(ctx, 1)
	if err != nil {
		return err
	}
	s.addr = addrs[0]
	t, err := templateOf(ctx, s.opts.Program)
	if err != nil {
		return err
	}
	if err := t.Write(ctx, s.data, func(string) error { return nil }); err != nil {
		return fmt.Errorf("mysqltest: copy a data directory: %w", err)
	}
	if err := os.WriteFile(s.configFile(), []byte(s.configuration()), 0o600); err != nil {
		return fmt.Errorf("mysqltest: configuration: %w", err)
	}
	return nil
}

func (s *Server) configFile() string { return filepath.Join(s.dir.Path(), "my.cnf") }

// launch starts the server and returns when it serves clients.
func (s *Server) launch(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	p := s.running()
	progressing, cancel := testserver.Progressing(ctx, s.opts.StartTimeout, p.StderrLen)
	defer cancel()
	return waitReady(progressing, p)
}

// start starts the process, which must not be running.
func (s *Server) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("mysqltest: start: %w", context.Cause(ctx))
	}
	arguments := append([]string{"--defaults-file=" + s.configFile()}, user()...)
	// ctx bounds only the start: the process outlives it.
	cmd := process.Command(context.WithoutCancel(ctx), s.opts.Program, arguments...)
	cmd.Dir, cmd.Env = s.dir.Path(), environment(os.Environ())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("mysqltest: start: %w", errClosed)
	}
	s.process = process.Start(cmd)
	return nil
}

// waitReady returns when the server has logged that it serves clients. A connection would not
// show whose server has the port.
func waitReady(ctx context.Context, p *process.Process) error {
	for !strings.Contains(p.Stderr(), readyLine) {
		select {
		case <-p.Done():
			return fmt.Errorf("mysqltest: start: %w", p.Err())
		case <-ctx.Done():
			return fmt.Errorf("mysqltest: start: %w: the end of its log:\n%s", context.Cause(ctx), process.LastLines(p.Stderr(), 20))
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// DSN returns what Go's MySQL driver (github.com/go-sql-driver/mysql) connects with: to the
// database "test" as the user "root", who may do anything and needs no password.
func (s *Server) DSN() string { return "root@tcp(" + s.addr + ")/" + database }

// Addr returns the "host:port" of the server.
func (s *Server) Addr() string { return s.addr }

// portOf returns the port of "host:port".
func portOf(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }

// Socket returns the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir.Path(), "socket") }

// Pid returns the process id of the server. A restart gives it another.
func (s *Server) Pid() int { return s.running().Pid() }

// Log returns the end of what the server has logged since it was started: at most 16 KiB.
func (s *Server) Log() string { return s.running().Stderr() }

// Close kills the server, without notice to clients, and removes what Start has made. Further
// calls return the first result. It takes some milliseconds.
func (s *Server) Close() error { return s.close() }

func (s *Server) shutdown() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Kill()
	if s.dir == nil {
		return nil
	}
	return s.dir.Remove()
}

func (s *Server) running() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/testnet"
)

var errClosed = errors.New("the server is closed")

// Server is a PostgreSQL server: a postmaster and its children. Its methods are safe for
// concurrent use.
type Server struct {
	opts  Options
	as    serverUser
	dir   *testserver.Dir
	data  string // the data directory
	addr  string
	ca    *testnet.CA // with Options.TLS
	clock string      // the library that sets the clock, with Options.Clock

	primary  *Server      // of a standby, else nil
	name     string       // of a standby
	standbys atomic.Int64 // how many have been made without a name

	close func() error

	mu      sync.Mutex
	process *process.Process // the postmaster; nil before it is started
	closed  bool             // no process may be started any more
	paused  map[int]bool     // by process id, the children that are stopped
	guard   *guard           // ends those if this process dies; nil before the first
	adopted []io.Closer      // standbys and poolers, which end with the server
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

// Start starts a server and returns when it serves clients. If its process ends, if there
// is no progress within Options.StartTimeout, or if ctx ends, Start returns the reason with
// the end of the server's log, and leaves nothing behind. ctx bounds only the start.
func Start(ctx context.Context, opts *Options) (*Server, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	as, err := findServerUser()
	if err != nil {
		return nil, err
	}
	return retried(func() (*Server, error) {
		s := newServer(o, as)
		return s, s.begin(ctx)
	})
}

// retried calls start again while another process has taken the port.
func retried(start func() (*Server, error)) (*Server, error) {
	for attempt := 1; ; attempt++ {
		s, err := start()
		if err == nil {
			return s, nil
		}
		if attempt == 5 || !testserver.PortTaken(err) {
			return nil, err
		}
	}
}

func newServer(opts Options, as serverUser) *Server {
	s := &Server{opts: opts, as: as, paused: map[int]bool{}}
	s.close = sync.OnceValue(s.shutdown)
	return s
}

// begin is one attempt at Start, with a port of its own. It leaves nothing behind when it
// fails.
func (s *Server) begin(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return errors.Join(err, s.Close(), s.discard())
	}
	if err := s.launch(ctx); err != nil {
		return errors.Join(err, s.Close(), s.discard())
	}
	return nil
}

// prepare makes everything that the server needs before it can start.
func (s *Server) prepare(ctx context.Context) error {
	if err := s.makeDir(ctx); err != nil {
		return err
	}
	if s.opts.Clock {
		if err := s.addClock(); err != nil {
			return err
		}
	}
	if s.primary != nil {
		if err := s.copyPrimary(ctx); err != nil {
			return err
		}
		return s.configure()
	}
	t, err := templateOf(ctx, s.opts.Programs, s.as, s.dir.Path())
	if err != nil {
		return err
	}
	if err := t.Write(ctx, s.data, s.as.own); err != nil {
		return fmt.Errorf("pgtest: copy a database cluster: %w", err)
	}
	return s.configure()
}

// adopt makes the end of another end with the server's.
func (s *Server) adopt(other io.Closer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.adopted = append(s.adopted, other)
	return nil
}

// makeDir makes the directory of the server, and reserves its port.
func (s *Server) makeDir(ctx context.Context) (err error) {
	// The socket needs a directory of our own, even with Options.Dir.
	s.dir, err = testserver.MakeDir("pgtest", !s.opts.Disk)
	if err != nil {
		return err
	}
	for _, dir := range []string{s.dir.Path(), s.opts.Dir} {
		if dir == "" {
			continue
		}
		if err := s.as.own(dir); err != nil {
			return fmt.Errorf("pgtest: data directory: %w", err)
		}
	}
	s.data = filepath.Join(cmp.Or(s.opts.Dir, s.dir.Path()), "data")
	addrs, err := s.dir.Ports(ctx, 1)
	if err != nil {
		return err
	}
	s.addr = addrs[0]
	return nil
}

// launch starts the server and returns when it serves clients.
func (s *Server) launch(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	p := s.running()
	progressing, cancel := testserver.Progressing(ctx, s.opts.StartTimeout, p.StderrLen)
	defer cancel()
	return s.waitReady(progressing, p)
}

// Addr returns the "host:port" of the server.
func (s *Server) Addr() string { return s.addr }

// Pid returns the process id of the postmaster. A restart gives it another.
func (s *Server) Pid() int { return s.running().Pid() }

// Log returns the end of what the server has logged since it was started: at most 16 KiB.
func (s *Server) Log() string { return s.running().Stderr() }

// Close kills all processes of the server, of its standbys and of its poolers, without notice
// to clients, and removes what Start has made. Further calls return the first result. It takes some milliseconds.
func (s *Server) Close() error { return s.close() }

func (s *Server) shutdown() error {
	s.mu.Lock()
	s.closed = true
	adopted := s.adopted
	s.mu.Unlock()
	var errs []error
	for _, c := range adopted {
		errs = append(errs, c.Close())
	}
	s.Kill()
	if s.guard != nil {
		errs = append(errs, s.guard.close())
	}
	if s.dir != nil {
		errs = append(errs, s.dir.Remove())
	}
	return errors.Join(errs...)
}

// discard removes the data from Options.Dir.
func (s *Server) discard() error {
	if s.data == "" {
		return nil
	}
	return os.RemoveAll(s.data)
}

func (s *Server) running() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

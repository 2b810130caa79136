package redistest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/testnet"
)

var errClosed = errors.New("the server is closed")

// Server is a process of Redis or Valkey: a master, a replica, a node of a cluster, or a Sentinel.
// Its methods are safe for concurrent use.
type Server struct {
	opts   Options
	role   role
	dir    *testserver.Dir
	data   string         // the data directory
	listen string         // the "host:port" of the server itself
	bus    string         // that for the other nodes of a cluster
	ca     *testnet.CA    // with Options.TLS
	clock  *clock         // with Options.Clock
	front  *testnet.Proxy // before a server of a Sentinel or Cluster, else nil

	close func() error

	mu        sync.Mutex
	process   *process.Process // nil before it is started
	closed    bool             // no process may be started any more
	adopted   []io.Closer      // replicas, which end with the server
	link      *link            // to the master of a replica; nil if it has none, or one of its own
	followers map[*link]bool   // those of its replicas
}

// role is what a server is for, among others.
type role struct {
	kind   kind
	secret string      // the password of the user of this package, the same for all that start together
	ca     *testnet.CA // likewise the authority; nil for one of its own
	id     string      // of a Sentinel
	lines  []string    // of its configuration, before those of the options
	peers  *peers      // those that Sentinels watch, or the nodes of a cluster
}

// peers are servers that know each other by the ports of their addresses.
type peers struct{ all []*Server }

// at returns the server with this port, nil if there is none.
func (p *peers) at(port string) *Server {
	for _, s := range p.all {
		if portOf(s.Addr()) == port {
			return s
		}
	}
	return nil
}

type kind int

const (
	alone    kind = iota // or a replica that Server.Replica starts
	watched              // by Sentinels
	sentinel             // watches others
	node                 // of a cluster
)

// New starts a server for a test, and closes it after the test and all cleanups that were
// registered later. It fails the test if the server does not start.
func New(t testing.TB, opts *Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	return s
}

func closeAfter(t testing.TB, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Start starts a server and returns when it serves clients. If its process ends, if there is
// no progress within Options.StartTimeout, or if ctx ends, Start returns the reason with the
// end of the server's log, and leaves nothing behind. ctx bounds only the start.
func Start(ctx context.Context, opts *Options) (*Server, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	return begin(ctx, o, role{secret: rand.Text()})
}

// begin starts a server, again while another process has taken the port.
func begin(ctx context.Context, opts Options, role role) (*Server, error) {
	for attempt := 1; ; attempt++ {
		s := newServer(opts, role)
		err := s.begin(ctx)
		if err == nil {
			return s, nil
		}
		if attempt == 5 || !testserver.PortTaken(err) {
			return nil, err
		}
	}
}

func newServer(opts Options, role role) *Server {
	s := &Server{opts: opts, role: role, followers: map[*link]bool{}}
	s.close = sync.OnceValue(s.shutdown)
	return s
}

// begin is one attempt to start, with ports of its own. It leaves nothing behind when it fails.
func (s *Server) begin(ctx context.Context) error {
	err := s.prepare(ctx)
	if err == nil {
		err = s.configure()
	}
	if err == nil {
		err = s.launch(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Close(), s.discard())
	}
	return nil
}

// prepare makes everything that the server needs before it can start.
func (s *Server) prepare(ctx context.Context) (err error) {
	// The socket needs a directory of our own, even with Options.Dir.
	s.dir, err = testserver.MakeDir("redistest", !s.opts.Disk)
	if err != nil {
		return err
	}
	s.data = filepath.Join(cmp.Or(s.opts.Dir, s.dir.Path()), "data")
	if err := os.Mkdir(s.data, 0o700); err != nil {
		return fmt.Errorf("redistest: data directory: %w", err)
	}
	ports, err := s.dir.Ports(ctx, 2)
	if err != nil {
		return err
	}
	s.listen, s.bus = ports[0], ports[1]
	if s.role.kind == watched || s.role.kind == node {
		s.front, err = testnet.New(s.listen, &testnet.Options{Label: labelOf})
		if err != nil {
			return err
		}
	}
	if s.opts.Clock {
		s.clock, err = newClock(ctx, s.dir.Path())
		if err != nil {
			return err
		}
	}
	return nil
}

// adopt makes the end of another end with the server's.
func (s *Server) adopt(other io.Closer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("redistest: %w", errClosed)
	}
	s.adopted = append(s.adopted, other)
	return nil
}

// Addr returns the "host:port" of the server, through its proxy if there is one.
func (s *Server) Addr() string {
	if s.front != nil {
		return s.front.Addr()
	}
	return s.listen
}

// Proxy returns the proxy at Addr, which stands before each server that StartSentinels and
// StartCluster start. Clients, Sentinels and replicas all use it. The connections of replicas
// have the label Replicas, unless the server uses TLS. It is nil for other servers: put one
// before their Addr.
func (s *Server) Proxy() *testnet.Proxy { return s.front }

// Pid returns the process id of the server. A restart gives it another.
func (s *Server) Pid() int { return s.running().Pid() }

// Log returns the end of what the server has logged since it was started: at most 16 KiB.
func (s *Server) Log() string { return s.running().Stderr() }

// Close kills the server and its replicas, without notice to clients, and removes what Start has
// made. Further calls return the first result. It takes some milliseconds.
func (s *Server) Close() error { return s.close() }

func (s *Server) shutdown() error {
	s.mu.Lock()
	s.closed = true
	adopted, link := s.adopted, s.link
	s.mu.Unlock()
	var errs []error
	for _, c := range adopted {
		errs = append(errs, c.Close())
	}
	s.Kill()
	if link != nil {
		errs = append(errs, link.close())
	}
	if s.front != nil {
		errs = append(errs, s.front.Close())
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

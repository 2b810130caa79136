package zktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/testnet"
)

const (
	pollEvery = 10 * time.Millisecond

	// A member that is stopped does not answer, and one that is just starting may
	// lose a request. A slow machine needs a longer timeout after every failure.
	answerWithin = 100 * time.Millisecond
)

var errClosed = errors.New("the ensemble is closed")

// Member is one server of an ensemble.
type Member struct {
	ensemble *Ensemble
	index    int
	dir      string
	addrs    addrs
	client   *testnet.Proxy // before the client address; nil without Options.Proxied
	links    []*link        // to each other member; nil without Options.Proxied

	mu      sync.Mutex
	process *process.Process // nil before it is started
	closed  bool             // no process may be started any more

	ready atomic.Bool // whether the present process has served
}

// addrs are the addresses of a member: its own, or those of the proxies before it.
type addrs struct{ client, quorum, election string }

// addMembers creates the members of an ensemble, with their proxies.
func (e *Ensemble) addMembers(ctx context.Context) error {
	n := e.opts.Members
	free, err := e.dir.Ports(ctx, 3*n)
	if err != nil {
		return err
	}
	dir := cmp.Or(e.opts.Dir, e.dir.Path())
	for i := range n {
		m := &Member{ensemble: e, index: i, addrs: addrs{free[3*i], free[3*i+1], free[3*i+2]}}
		m.dir = filepath.Join(dir, m.Name())
		e.members = append(e.members, m)
	}
	if e.opts.Proxied {
		if err := e.addProxies(); err != nil {
			return err
		}
	}
	for _, m := range e.members {
		if err := m.write(); err != nil {
			return err
		}
	}
	return nil
}

// Name returns the name of the member: "m0", "m1" and so on.
func (m *Member) Name() string { return fmt.Sprintf("m%d", m.index) }

// id is ZooKeeper's number for the member, which begins at 1.
func (m *Member) id() int { return m.index + 1 }

// Endpoint returns the "host:port" for clients, through the proxy if there is one.
func (m *Member) Endpoint() string {
	if m.client != nil {
		return m.client.Addr()
	}
	return m.addrs.client
}

// Direct returns the "host:port" for clients that bypass the proxy.
func (m *Member) Direct() string { return m.addrs.client }

// Pid returns the process id of the member.
func (m *Member) Pid() int { return m.running().Pid() }

func (m *Member) running() *process.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// start starts the process, which must not be running.
func (m *Member) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("zktest: start %q: %w", m.Name(), err)
	}
	// ctx bounds only the start: the process outlives it.
	cmd := process.Command(context.WithoutCancel(ctx), m.ensemble.java, m.arguments()...)
	cmd.Dir, cmd.Env = m.dir, environment(os.Environ())
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("zktest: start %q: %w", m.Name(), errClosed)
	}
	m.ready.Store(false)
	m.process = process.Start(cmd)
	return nil
}

// waitReady returns when the member serves clients.
func (m *Member) waitReady(ctx context.Context) error {
	p := m.running()
	timeout := answerWithin
	for {
		_, err := m.status(ctx, timeout)
		if err == nil {
			m.ready.Store(true)
			return nil
		}
		timeout = longer(timeout, err)
		// A member that cannot bind its port for the other members keeps running.
		stderr := errors.New(p.Stderr())
		if testserver.PortTaken(stderr) {
			return fmt.Errorf("zktest: wait for %q: %w", m.Name(), stderr)
		}
		select {
		case <-p.Done():
			return fmt.Errorf("zktest: wait for %q: %w", m.Name(), p.Err())
		case <-ctx.Done():
			return fmt.Errorf("zktest: wait for %q: %w: %w: the end of its log:\n%s", m.Name(), context.Cause(ctx), err, process.LastLines(p.Stderr(), 20))
		case <-time.After(pollEvery):
		}
	}
}

func (m *Member) halt() {
	p := m.running()
	if p != nil {
		p.Halt()
	}
}

// close ends the process for good.
func (m *Member) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.halt()
}

func (m *Member) closeProxies() error {
	var errs []error
	if m.client != nil {
		errs = append(errs, m.client.Close())
	}
	for _, l := range m.links {
		if l != nil {
			errs = append(errs, l.close())
		}
	}
	return errors.Join(errs...)
}

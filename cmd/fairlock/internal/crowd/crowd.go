package crowd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fault"
	proc "github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

// Options are what Run takes.
type Options struct {
	Out   io.Writer     // where it prints what it does
	For   time.Duration // how long it goes on
	Every time.Duration // between two mishaps

	// Worker returns the arguments with which this program becomes a worker.
	Worker func(Config) []string

	// Page serves the page of a session until ctx ends.
	Page func(ctx context.Context, s *session.Session) error
}

// errOver ends a crowd that has had its time.
var errOver = errors.New("the time is up")

// farewell is how long workers may take to leave, and respawn how long a killed one is
// missing.
const (
	farewell = 5 * time.Second
	respawn  = 3 * time.Second
)

// member is a worker, and its own way to etcd.
type member struct {
	Config

	p   *proc.Process
	way *testnet.Proxy
}

// crowd is all of them.
type crowd struct {
	Options

	exe     string
	cluster *etcdtest.Cluster

	members []*member // does not change once the mishaps begin
}

// Run starts etcd, the workers and the page, and goes on for Options.For, or until ctx
// ends, with its cause. When it returns, all that it started is gone.
func Run(ctx context.Context, o Options) (err error) {
	if !proc.CanPause {
		return errors.New("demo: stopping and waking processes needs a Unix")
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.For, errOver)
	defer cancel()
	c := &crowd{Options: o, exe: exe}
	if c.cluster, err = etcdtest.Start(ctx, nil); err != nil {
		return fmt.Errorf("demo: start etcd: %w", err)
	}
	defer func() { err = errors.Join(err, c.cluster.Close()) }()
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: c.cluster.Endpoints()[:1]}, &etcdbackend.Options{
		Session: session.Options{Label: "fairlock demo"},
	})
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { _ = s.Close() }() // etcd goes with it
	defer c.dismiss()                //nolint:contextcheck // they leave although ctx has ended
	for _, cfg := range cast() {
		if err := c.hire(cfg); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "%d workers on an etcd, for %s; ^C ends it before\n", len(cast()), o.For)
	fmt.Fprintf(o.Out, "in another terminal: export FAIRLOCK_ON=etcd://%s\n", c.address())
	var mishaps sync.WaitGroup
	mishaps.Go(func() { c.mishaps(ctx) }) // ends with ctx
	defer mishaps.Wait()
	defer cancel()
	err = o.Page(ctx, s)
	if errors.Is(context.Cause(ctx), errOver) {
		return nil
	}
	return err
}

// address is that of etcd, without a scheme.
func (c *crowd) address() string { return strings.TrimPrefix(c.cluster.Endpoints()[0], "http://") }

// cast are the workers.
func cast() []Config {
	var all []Config
	for _, r := range []struct {
		role string
		n    int
	}{{settle, 4}, {prices, 2}, {train, 3}, {transfer, 2}, {leader, 2}} {
		for i := range r.n {
			all = append(all, Config{Name: fmt.Sprintf("%s-%d", r.role, i+1), Role: r.role})
		}
	}
	return all
}

// hire starts a worker, with a way to etcd of its own.
func (c *crowd) hire(cfg Config) error {
	way, err := testnet.New(c.address(), nil)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	m := &member{Config: cfg, way: way}
	m.Server = way.Addr()
	c.start(m)
	if m.p.Pid() == 0 {
		return fmt.Errorf("demo: start worker %s: %w", m.Name, errors.Join(m.p.Wait(), way.Close()))
	}
	c.members = append(c.members, m)
	return nil
}

//nolint:contextcheck // a worker ends by its input or by a signal, not with a context
func (c *crowd) start(m *member) {
	m.p = proc.Start(exec.CommandContext(context.Background(), c.exe, c.Worker(m.Config)...))
}

// mishaps makes one after the other until ctx ends.
func (c *crowd) mishaps(ctx context.Context) {
	all := []func(ctx context.Context, m *member) error{c.stop, c.cut, c.kill}
	for i := 0; pause(ctx, c.Every) == nil; i++ {
		m := c.members[rand.N(len(c.members))]
		select {
		case <-m.p.Done(): // which no mishap has done
			c.say("%s pid %d has ended by itself, and is started again: %v %s", m.Name, m.p.Pid(), m.p.Err(), strings.TrimSpace(m.p.Stderr()))
			c.start(m)
			continue
		default:
		}
		if err := all[i%len(all)](ctx, m); err != nil && ctx.Err() == nil {
			c.say("%s: %v", m.Name, err)
		}
	}
}

func (c *crowd) say(format string, args ...any) {
	fmt.Fprintf(c.Out, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// stop lets a worker stand still until its session has expired.
func (c *crowd) stop(ctx context.Context, m *member) error {
	const still = ttl + 4*time.Second
	c.say("%s pid %d stands still for %s (SIGSTOP): it loses its session", m.Name, m.p.Pid(), still)
	if err := m.p.Pause(); err != nil {
		return fmt.Errorf("stop it: %w", err)
	}
	_ = pause(ctx, still)
	if err := m.p.Resume(); err != nil {
		return fmt.Errorf("wake it: %w", err)
	}
	c.say("%s goes on", m.Name)
	return nil
}

// cut cuts a worker off from etcd until its session has expired.
func (c *crowd) cut(ctx context.Context, m *member) error {
	const off = ttl + 3*time.Second
	c.say("%s pid %d is cut off from etcd for %s: it loses its session", m.Name, m.p.Pid(), off)
	m.way.Hold(fault.Both)
	_ = pause(ctx, off)
	m.way.Heal(fault.Both)
	c.say("%s reaches etcd again", m.Name)
	return nil
}

// kill kills a worker, and starts another one in its place.
func (c *crowd) kill(ctx context.Context, m *member) error {
	c.say("%s pid %d is killed (SIGKILL): its entries go within %s", m.Name, m.p.Pid(), ttl)
	if err := m.p.Signal(os.Kill); err != nil {
		return fmt.Errorf("kill it: %w", err)
	}
	<-m.p.Done()
	if pause(ctx, ttl+respawn) == nil {
		c.start(m)
		c.say("%s is started again as pid %d", m.Name, m.p.Pid())
	}
	return nil
}

// dismiss lets all workers leave, and kills those that do not.
func (c *crowd) dismiss() {
	for _, m := range c.members {
		m.p.CloseInput()
		_ = m.p.Resume() // a worker that is stopped cannot leave
		m.way.Heal(fault.Both)
	}
	late := time.After(farewell)
	for _, m := range c.members {
		select {
		case <-m.p.Done():
		case <-late:
			late = time.After(0)
			_ = m.p.Signal(os.Kill) // it has gone this moment otherwise
			<-m.p.Done()
		}
		_ = m.way.Close()
	}
}

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

// Options are the options of Run.
type Options struct {
	Out   io.Writer     // where it prints what it does
	For   time.Duration // how long it runs
	Every time.Duration // between two faults

	// Worker returns the arguments with which this program becomes a worker.
	Worker func(Config) []string

	// Page serves the page of a session until ctx ends.
	Page func(ctx context.Context, s *session.Session) error
}

// errOver ends the demonstration after Options.For.
var errOver = errors.New("the time is up")

// endTimeout bounds how long workers take to end. restartAfter is how long a killed worker
// is missing after its session has expired.
const (
	endTimeout   = 5 * time.Second
	restartAfter = 3 * time.Second
)

// worker is a worker process, and its own proxy to etcd.
type worker struct {
	Config

	p     *proc.Process
	proxy *testnet.Proxy
}

// crowd is the state of Run.
type crowd struct {
	Options

	exe     string
	cluster *etcdtest.Cluster

	workers []*worker // does not change after the first fault
}

// Run starts etcd, the workers and the page. It runs for Options.For, or until ctx ends.
// When it returns, all that it started has ended.
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
	c.cluster, err = etcdtest.Start(ctx, nil)
	if err != nil {
		return fmt.Errorf("demo: start etcd: %w", err)
	}
	defer func() { err = errors.Join(err, c.cluster.Close()) }()
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: c.cluster.Endpoints()[:1]}, &etcdbackend.Options{
		Session: session.Options{Label: "demo"},
	})
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { _ = s.Close() }() // etcd ends anyway
	defer c.endAll()                 //nolint:contextcheck // they end in an orderly way although ctx has ended
	for _, cfg := range configs() {
		if err := c.add(cfg); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "%d workers on an etcd, for %s; ^C ends it before\n", len(configs()), o.For)
	fmt.Fprintf(o.Out, "in another terminal: export FAIRLOCK_ON=etcd://%s\n", c.address())
	var faults sync.WaitGroup
	faults.Go(func() { c.faults(ctx) }) // ends with ctx
	defer faults.Wait()
	defer cancel()
	err = o.Page(ctx, s)
	if errors.Is(context.Cause(ctx), errOver) {
		return nil
	}
	return err
}

// address returns the address of etcd, without a scheme.
func (c *crowd) address() string { return strings.TrimPrefix(c.cluster.Endpoints()[0], "http://") }

// configs returns the configurations of all workers.
func configs() []Config {
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

// add starts a worker, with its own proxy to etcd.
func (c *crowd) add(cfg Config) error {
	proxy, err := testnet.New(c.address(), nil)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	w := &worker{Config: cfg, proxy: proxy}
	w.Server = proxy.Addr()
	c.start(w)
	if w.p.Pid() == 0 {
		return fmt.Errorf("demo: start worker %s: %w", w.Name, errors.Join(w.p.Wait(), proxy.Close()))
	}
	c.workers = append(c.workers, w)
	return nil
}

// start starts the process of a worker.
//
//nolint:contextcheck // a worker ends by its input or by a signal, not with a context
func (c *crowd) start(w *worker) {
	w.p = proc.Start(exec.CommandContext(context.Background(), c.exe, c.Worker(w.Config)...))
}

// faults injects one fault after the other until ctx ends.
func (c *crowd) faults(ctx context.Context) {
	all := []func(ctx context.Context, w *worker) error{c.stop, c.cut, c.kill}
	for i := 0; pause(ctx, c.Every) == nil; i++ {
		w := c.workers[rand.N(len(c.workers))]
		select {
		case <-w.p.Done(): // no fault has done that
			c.report("%s pid %d has ended by itself, and is started again: %v %s", w.Name, w.p.Pid(), w.p.Err(), strings.TrimSpace(w.p.Stderr()))
			c.start(w)
			continue
		default:
		}
		if err := all[i%len(all)](ctx, w); err != nil && ctx.Err() == nil {
			c.report("%s: %v", w.Name, err)
		}
	}
}

// report prints what the demonstration does.
func (c *crowd) report(format string, args ...any) {
	fmt.Fprintf(c.Out, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// stop stops a worker until its session has expired.
func (c *crowd) stop(ctx context.Context, w *worker) error {
	const stopped = ttl + 4*time.Second
	c.report("%s pid %d is stopped for %s (SIGSTOP): it loses its session", w.Name, w.p.Pid(), stopped)
	if err := w.p.Pause(); err != nil {
		return fmt.Errorf("stop it: %w", err)
	}
	_ = pause(ctx, stopped)
	if err := w.p.Resume(); err != nil {
		return fmt.Errorf("wake it: %w", err)
	}
	c.report("%s goes on", w.Name)
	return nil
}

// cut cuts a worker off from etcd until its session has expired.
func (c *crowd) cut(ctx context.Context, w *worker) error {
	const off = ttl + 3*time.Second
	c.report("%s pid %d is cut off from etcd for %s: it loses its session", w.Name, w.p.Pid(), off)
	w.proxy.Hold(fault.Both)
	_ = pause(ctx, off)
	w.proxy.Heal(fault.Both)
	c.report("%s reaches etcd again", w.Name)
	return nil
}

// kill kills a worker, and starts another one in its place.
func (c *crowd) kill(ctx context.Context, w *worker) error {
	c.report("%s pid %d is killed (SIGKILL): its entries go within %s", w.Name, w.p.Pid(), ttl)
	if err := w.p.Signal(os.Kill); err != nil {
		return fmt.Errorf("kill it: %w", err)
	}
	<-w.p.Done()
	if pause(ctx, ttl+restartAfter) == nil {
		c.start(w)
		c.report("%s is started again as pid %d", w.Name, w.p.Pid())
	}
	return nil
}

// endAll lets all workers end, and kills those that do not.
func (c *crowd) endAll() {
	for _, w := range c.workers {
		w.p.CloseInput()
		_ = w.p.Resume() // a stopped worker cannot end
		w.proxy.Heal(fault.Both)
	}
	late := time.After(endTimeout)
	for _, w := range c.workers {
		select {
		case <-w.p.Done():
		case <-late:
			late = time.After(0)
			_ = w.p.Signal(os.Kill) // an error if it has just ended
			<-w.p.Done()
		}
		_ = w.proxy.Close()
	}
}

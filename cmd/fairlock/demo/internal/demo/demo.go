// Package demo is the demonstration. It starts a service of its own, and five worker
// processes that contend for one lock and write to a ledger that checks tokens. It makes
// two faults, and checks every promise. Nothing is prepared: the picture shows what
// happens, and the summary is checked against independent sources.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/wire"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/worker"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	proc "github.com/fairlock/fairlock/internal/process"
)

// ErrBroken is the error for a promise that was not kept. The summary shows which.
var ErrBroken = errors.New("not as promised")

// Options are what Run takes.
type Options struct {
	On    string   // the service, one of Services
	Out   *os.File // where the picture or the log goes
	Plain bool     // print lines even if Out is a terminal

	// Worker returns the arguments with which this program becomes a worker.
	Worker func(worker.Config) []string
}

type refusal = ledger.Refusal

// Run runs the demonstration, which takes about 20 s and at most a minute, and prints its
// summary. It returns an error that wraps ErrBroken if a promise was not kept, or the cause
// of ctx if ctx has ended. When it returns, all processes that it started have ended.
func Run(ctx context.Context, o Options) error {
	if !proc.CanPause {
		return errors.New("demo: stopping and waking processes needs a Unix")
	}
	kind, err := kindOf(o.On)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d := &demonstration{exe: exe, opts: o, kind: kind, paint: screen.NewPaint(screen.Colours(o.Out))}
	d.live = !o.Plain && screen.Capable(o.Out, view.MinWidth, view.MinHeight)
	l := &ledger.Ledger{}
	d.state = newState(kind.terms, l, d.printNote)
	return d.run(ctx, l)
}

// demonstration is one run.
type demonstration struct {
	exe       string
	opts      Options
	kind      serviceKind
	paint     screen.Paint
	live      bool // show the picture, not lines
	state     *state
	service   service
	ledgerURL string
	began     time.Time

	mu      sync.Mutex
	workers []*process
}

// run starts everything, runs the script, stops everything and checks.
func (d *demonstration) run(ctx context.Context, l *ledger.Ledger) (err error) {
	d.began = time.Now()
	ctx, cancel := d.until(ctx, checkEnd)
	defer cancel()
	starting := d.progress("starting " + d.kind.terms.Service)
	d.service, err = d.kind.open(ctx, lockName)
	starting.Close()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, d.service.close()) }()
	if !d.live {
		d.print(view.Intro(d.kind.terms, lockName, ttl)...)
	}

	server, err := ledger.Serve(ctx, l, ledger.Callbacks{
		First:   func(ctx context.Context, token int64) { d.state.firstRequest(ctx, d.service, token) },
		Changed: func() { d.state.change(func() {}) },
	})
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	d.ledgerURL = server.URL()

	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	follow, err := d.service.follow(watching, d.state)
	if err != nil {
		unwatch()
		return fmt.Errorf("demo: %w", err)
	}
	var watch sync.WaitGroup
	watch.Go(func() { d.state.guard(follow) }) // ends with the context watching
	defer watch.Wait()
	defer unwatch()

	scriptCtx, stop := d.until(ctx, scriptEnd)
	played := d.runScript(scriptCtx)
	stop()
	killed := d.dismiss(ctx)
	if err := interrupted(ctx); err != nil {
		return err
	}
	return d.conclude(ctx, played, killed)
}

// interrupted returns the cause of ctx, or nil if ctx has not ended or the time was up.
func interrupted(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errTooLong) {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// until returns a context that ends with ctx, or at limit after the beginning of the
// demonstration.
func (d *demonstration) until(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(ctx, d.began.Add(limit), errTooLong)
}

// progress shows a text before or after the picture. Without a picture it shows nothing,
// because a line of the log may come at any time.
func (d *demonstration) progress(text string) *screen.Progress {
	if !d.live {
		return &screen.Progress{}
	}
	return screen.NewProgress(d.opts.Out, text)
}

// dismiss ends all workers, and returns the number that it had to kill.
func (d *demonstration) dismiss(ctx context.Context) int {
	defer d.progress("waiting until the workers have left").Close()
	leaving, cancel := d.until(context.WithoutCancel(ctx), workersEnd)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(interruptTimeout, cancel) })()
	return dismiss(leaving, d.allProcesses())
}

// conclude checks what happened, and prints the result.
func (d *demonstration) conclude(ctx context.Context, played error, killed int) error {
	checking := d.progress("checking what happened")
	defer checking.Close()
	if err := d.service.markEnd(ctx); err != nil {
		return fmt.Errorf("demo: %w", errors.Join(played, err))
	}
	late := d.state.until(ctx, "the service reports all events", func() bool { return d.state.ended })
	keys, leases, err := d.service.leftovers(ctx)
	if err != nil {
		return fmt.Errorf("demo: %w", errors.Join(played, late, err))
	}
	h := d.state.history()
	h.Leftovers = check.Leftovers{Keys: keys, Leases: leases, Processes: killed}
	r := check.Verify(h)
	for _, err := range append(d.state.failures(), played, late) {
		if err != nil && !slices.Contains(r.Causes, err.Error()) {
			r.Causes = append(r.Causes, err.Error())
		}
	}
	checking.Close()
	if !d.live {
		d.print(screen.Line{})
	}
	d.print(view.Summary(r, d.state.age())...)
	screen.Print(d.opts.Out, d.paint, 0, view.Violations(r)...)
	if !r.Kept() {
		return fmt.Errorf("demo: %w: %s", ErrBroken, r.Violations()[0])
	}
	return nil
}

// startWorker starts a worker.
func (d *demonstration) startWorker(name string) error {
	d.state.addWorker(name)
	args := d.opts.Worker(worker.Config{
		Name: name, Lock: lockName, On: d.kind.name, Server: d.service.address(), Ledger: d.ledgerURL,
		TTL: ttl, Work: visibleJob, Careless: name == careless,
	})
	p, err := spawn(d.exe, name, args,
		func(p *process, e wire.Event) { d.state.guard(func() { d.state.handle(p, e) }) },
		func(p *process) { d.state.guard(func() { d.state.exited(p) }) })
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.workers = append(d.workers, p)
	return nil
}

// allProcesses returns all workers, including those that have ended.
func (d *demonstration) allProcesses() []*process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.workers)
}

// process returns a worker by its name.
func (d *demonstration) process(name string) *process {
	all := d.allProcesses()
	return all[slices.IndexFunc(all, func(p *process) bool { return p.name == name })]
}

// orderAll sends an order to all workers.
func (d *demonstration) orderAll(o wire.Order) {
	for _, p := range d.allProcesses() {
		p.send(o)
	}
}

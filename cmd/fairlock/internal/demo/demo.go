// Package demo is the demonstration: a service of its own, five worker processes
// that contend for one lock and write to a ledger that checks tokens, two faults,
// and a check of everything that was promised. Nothing of it is canned: what is
// shown is what happens, and what is said in the end was looked up.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/wire"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/worker"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	proc "github.com/fairlock/fairlock/internal/process"
)

// ErrBroken says that something was not as promised. The summary has told what.
var ErrBroken = errors.New("not as promised")

// Options are what Run takes.
type Options struct {
	On    string   // the service, one of Services
	Out   *os.File // where it shows what happens
	Plain bool     // as lines, even if Out is a terminal

	// Worker returns the arguments with which this program becomes a worker.
	Worker func(worker.Config) []string
}

type refusal = ledger.Refusal

// Run runs the demonstration, which takes some 20 s and at most a minute, and prints
// its summary. It returns an error that wraps ErrBroken if anything was not as
// promised, or ctx's cause if that ended it. When it returns, all processes that
// it started are gone.
func Run(ctx context.Context, o Options) error {
	if !proc.CanPause {
		return errors.New("demo: stopping and waking processes needs a Unix")
	}
	on, err := serviceOf(o.On)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d := &director{exe: exe, opts: o, on: on, paint: screen.NewPaint(screen.Colours(o.Out))}
	d.live = !o.Plain && screen.Capable(o.Out, view.MinWidth, view.MinHeight)
	book := &ledger.Ledger{}
	d.stage = newStage(on.terms, book, d.noted)
	return d.run(ctx, book)
}

// director runs the show.
type director struct {
	exe   string
	opts  Options
	on    service
	paint screen.Paint
	live  bool // the picture is shown, not lines
	stage *stage
	store store
	url   string // of the ledger
	began time.Time

	mu   sync.Mutex
	crew []*process
}

// run sets everything up, plays the script, takes everything down and checks.
func (d *director) run(ctx context.Context, book *ledger.Ledger) (err error) {
	d.began = time.Now()
	ctx, cancel := d.until(ctx, audit)
	defer cancel()
	starting := d.progress("starting " + d.on.terms.Service)
	d.store, err = d.on.open(ctx, lockName)
	starting.Close()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, d.store.close()) }()
	if !d.live {
		d.print(view.Intro(d.on.terms, lockName, ttl)...)
	}

	server, err := ledger.Serve(ctx, book, ledger.Callbacks{
		First:   func(ctx context.Context, token int64) { d.stage.touched(ctx, d.store, token) },
		Changed: func() { d.stage.change(func() {}) },
	})
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	d.url = server.URL()

	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	follow, err := d.store.follow(watching, d.stage)
	if err != nil {
		unwatch()
		return fmt.Errorf("demo: %w", err)
	}
	var watch sync.WaitGroup
	watch.Go(func() { d.stage.guard(follow) }) // ends with watching
	defer watch.Wait()
	defer unwatch()

	playing, stop := d.until(ctx, script)
	played := d.play(playing)
	stop()
	killed := d.dismiss(ctx)
	if err := interrupted(ctx); err != nil {
		return err
	}
	return d.conclude(ctx, played, killed)
}

// interrupted returns why ctx has ended, unless the time was up.
func interrupted(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errTooLong) {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// until returns a context that ends with ctx, or when the demonstration has taken
// so long.
func (d *director) until(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(ctx, d.began.Add(limit), errTooLong)
}

// progress shows what is done after the picture or before it, where there is one.
// Lines may come at any time.
func (d *director) progress(text string) *screen.Progress {
	if !d.live {
		return &screen.Progress{}
	}
	return screen.NewProgress(d.opts.Out, text)
}

// dismiss ends all workers, and returns how many it had to kill.
func (d *director) dismiss(ctx context.Context) int {
	defer d.progress("waiting until the workers have left").Close()
	leaving, cancel := d.until(context.WithoutCancel(ctx), farewell)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(hurry, cancel) })()
	return dismiss(leaving, d.everyone())
}

// conclude checks what happened, and prints what it comes to.
func (d *director) conclude(ctx context.Context, played error, killed int) error {
	checking := d.progress("checking what happened")
	defer checking.Close()
	if err := d.store.mark(ctx); err != nil {
		return fmt.Errorf("demo: %w", errors.Join(played, err))
	}
	late := d.stage.until(ctx, "the store's events come to their end", func() bool { return d.stage.ended })
	keys, leases, err := d.store.left(ctx)
	if err != nil {
		return fmt.Errorf("demo: %w", errors.Join(played, late, err))
	}
	h := d.stage.history()
	h.Leftovers = check.Leftovers{Keys: keys, Leases: leases, Processes: killed}
	r := check.Verify(h)
	for _, err := range append(d.stage.faulty(), played, late) {
		if err != nil && !slices.Contains(r.Causes, err.Error()) {
			r.Causes = append(r.Causes, err.Error())
		}
	}
	checking.Close()
	if !d.live {
		d.print(screen.Line{})
	}
	d.print(view.Summary(r, d.stage.age())...)
	screen.Print(d.opts.Out, d.paint, 0, view.Violations(r)...)
	if !r.Kept() {
		return fmt.Errorf("demo: %w: %s", ErrBroken, r.Violations()[0])
	}
	return nil
}

// hire starts a worker.
func (d *director) hire(name string) error {
	d.stage.enter(name)
	args := d.opts.Worker(worker.Config{
		Name: name, Lock: lockName, On: d.on.name, Server: d.store.server(), Ledger: d.url,
		TTL: ttl, Work: byHand, Careless: name == careless,
	})
	p, err := spawn(d.exe, name, args,
		func(p *process, e wire.Event) { d.stage.guard(func() { d.stage.hear(p, e) }) },
		func(p *process) { d.stage.guard(func() { d.stage.leave(p) }) })
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crew = append(d.crew, p)
	return nil
}

// everyone returns all workers, the dead included.
func (d *director) everyone() []*process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.crew)
}

// process returns a worker by its name.
func (d *director) process(name string) *process {
	all := d.everyone()
	return all[slices.IndexFunc(all, func(p *process) bool { return p.name == name })]
}

// all gives everybody an order.
func (d *director) all(o wire.Order) {
	for _, p := range d.everyone() {
		p.tell(o)
	}
}

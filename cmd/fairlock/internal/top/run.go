package top

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gdamore/tcell/v3"

	"github.com/fairlock/fairlock/internal/inspect"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
)

// Service is what Run needs of a lock service. Its methods are called from several
// goroutines.
type Service interface {
	// Locks reads all locks, as inspect.ReadAll does.
	Locks(ctx context.Context) ([]schema.Queue, error)
	// Queue reads one queue with its yield requests.
	Queue(ctx context.Context, name string) (schema.Queue, error)
	// Do asks, withdraws or evicts, and returns a sentence about what it did.
	Do(ctx context.Context, c Command) (string, error)
	// Now returns the time by the service's clock.
	Now() time.Time
}

// Options are for Run.
type Options struct {
	Service  string        // its name in the title
	Interval time.Duration // between reads
	Timeout  time.Duration // of a read or an action
	// SessionLost receives when the session is lost, and all yield requests with it.
	SessionLost <-chan struct{}
}

// Run shows the live view until the user quits or ctx ends. The screen must be
// initialized. Run returns it to the terminal on every way out, a panic included.
func Run(ctx context.Context, scr tcell.Screen, svc Service, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{Options: o, svc: svc, scr: scr, results: make(chan result)}
	defer l.tasks.Wait()
	defer cancel()
	defer scr.Fini()
	l.state = State{Service: o.Service}
	l.state.Width, l.state.Height = scr.Size()
	tick := time.NewTicker(o.Interval)
	defer tick.Stop()
	l.read(ctx)
	for {
		draw(scr, View(l.state))
		var e Event
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			l.read(ctx)
			if time.Since(l.began) < slow {
				continue
			}
			e = Unanswered{} // until the read succeeds or fails
		case <-o.SessionLost:
			e = Done{Command: Command{Do: SessionLost}, Text: "the session was lost, and the yield requests with it"}
		case r := <-l.results:
			if r.panicked != nil {
				panic(r.panicked)
			}
			if r.fatal != nil {
				return r.fatal
			}
			e = r.event
			if r.read {
				l.finished(ctx)
			}
		case typed, ok := <-scr.EventQ():
			if !ok {
				return errors.New("the terminal is gone")
			}
			var err error
			e, err = event(scr, typed)
			if err != nil {
				return err
			}
		}
		var do Command
		l.state, do = Update(l.state, e)
		if do.Do == Quit {
			return nil
		}
		l.do(ctx, do)
	}
}

// loop is the state of Run between events.
type loop struct {
	Options

	svc     Service
	scr     tcell.Screen
	state   State
	results chan result
	tasks   sync.WaitGroup

	reading, again bool
	began          time.Time // of the newest read
}

// slow is how long a read may take before the screen shows that there is no answer.
const slow = 2 * time.Second

// result is the result of a goroutine.
type result struct {
	event    Event
	read     bool
	fatal    error
	panicked any
}

// start runs f in a goroutine that ends with ctx. A panic in f is raised again in
// Run, after it has restored the terminal.
func (l *loop) start(ctx context.Context, f func(ctx context.Context) result) {
	l.tasks.Go(func() {
		var r result
		defer func() {
			p := recover()
			if p != nil {
				r = result{panicked: fmt.Sprintf("%v\n\n%s", p, debug.Stack())}
			}
			select {
			case l.results <- r:
			case <-ctx.Done():
			}
		}()
		bounded, cancel := context.WithTimeout(ctx, l.Timeout)
		defer cancel()
		r = f(bounded)
	})
}

// do starts the command that Update returned.
func (l *loop) do(ctx context.Context, c Command) {
	switch c.Do {
	case Read:
		l.read(ctx)
	case Ask, Withdraw, Evict:
		l.start(ctx, func(ctx context.Context) result {
			text, err := l.svc.Do(ctx, c)
			if err != nil {
				text = err.Error()
			}
			return result{event: Done{Command: c, Failed: err != nil, Text: text}}
		})
	case Nothing, Quit, SessionLost:
	}
}

// read reads what is shown. One read runs at a time: if it takes longer than the
// interval, the next one starts when it ends.
func (l *loop) read(ctx context.Context) {
	if l.reading {
		l.again = true
		return
	}
	l.reading, l.began = true, time.Now()
	open := l.state.open
	l.start(ctx, func(ctx context.Context) result {
		var e Event
		var err error
		if open == "" {
			var queues []schema.Queue
			queues, err = l.svc.Locks(ctx)
			if some, ok := errors.AsType[*inspect.Unreadable](err); ok {
				return result{read: true, event: Locks{Queues: queues, Unread: some, At: l.svc.Now()}}
			}
			e = Locks{Queues: queues, At: l.svc.Now()}
		} else {
			var queue schema.Queue
			queue, err = l.svc.Queue(ctx, open)
			e = Queue{Queue: queue, At: l.svc.Now()}
		}
		switch {
		case errors.Is(err, session.ErrDenied), errors.Is(err, session.ErrRefused):
			return result{read: true, fatal: err} // a retry does not help
		case err != nil:
			return result{read: true, event: Unanswered{}}
		}
		return result{read: true, event: e}
	})
}

// finished is called after a read. It starts the next one if one was requested
// meanwhile.
func (l *loop) finished(ctx context.Context) {
	l.reading = false
	if l.again {
		l.again = false
		l.read(ctx)
	}
}

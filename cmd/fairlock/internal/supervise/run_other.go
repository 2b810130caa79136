//go:build !unix

package supervise

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Signals are the interrupts that this process got since Listen.
type Signals struct{ c chan os.Signal }

// Listen begins to collect interrupts. It ends with Close.
func Listen() *Signals {
	s := &Signals{c: make(chan os.Signal, 8)}
	signal.Notify(s.c, os.Interrupt)
	return s
}

// C returns the channel of the signals.
func (s *Signals) C() <-chan os.Signal { return s.c }

// Close stops the collection.
func (s *Signals) Close() { signal.Stop(s.c) }

// Ends returns a signal, and reports whether it asks a program to end.
func Ends(got os.Signal) (sig syscall.Signal, ends bool) {
	return syscall.SIGINT, got == os.Interrupt
}

// MayBeAbove is true: these systems do not show the ancestors of a process.
func MayBeAbove(int) bool { return true }

// Die does nothing: these systems end no process by a signal.
func Die(syscall.Signal, bool) {}

// ReapOrphans does nothing: these systems have no orphans.
func ReapOrphans() (stop func()) { return func() {} }

// run is Run on systems without process groups: the command is killed when it must stop,
// and processes that it has started live on.
func run(ctx context.Context, spec Spec) Result {
	clock := driver.SystemClock()
	if spec.Left() <= 0 && !spec.KeepOn {
		return tooLate(spec)
	}
	p, ended, err := begin(spec)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return Result{Code: CodeNotFound, Err: err}
	case err != nil:
		return Result{Code: CodeCannotStart, Err: err}
	}
	c := newPolicy(spec, clock.Now())
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	lost, done := spec.Lost, ctx.Done()
	var v view
	var state State
	code := 0
	var interrupt syscall.Signal
	for {
		v.now = clock.Now()
		v.left = spec.Left()
		switch c.next(v) {
		case kill, stop:
			_ = p.Kill() // it may have ended
		case end:
			select {
			case <-spec.Signals.C():
				interrupt = syscall.SIGINT
			default:
			}
			switch {
			case c.lost && !spec.KeepOn:
				code = CodeLost
			case c.tooLong:
				code = CodeTooLong
			}
			return Result{Code: code, Lost: c.lost, TooLong: c.tooLong, Ended: c.ended, Signal: interrupt}
		case wait:
		}
		s := c.state(v)
		if s != state {
			state = s
			spec.Report(s)
		}
		timer.Reset(c.wake(v))
		select {
		case code = <-ended:
			v.exited, v.empty = true, true
		case <-spec.Signals.C(): // a typed interrupt reaches the command too
			interrupt = syscall.SIGINT
		case <-lost:
			v.gone, lost = true, nil
		case <-done:
			v.over, done = true, nil
		case <-timer.C:
		}
	}
}

// begin starts the command. Its code comes from ended when it has ended.
func begin(spec Spec) (p *os.Process, ended <-chan int, err error) {
	p, err = os.StartProcess(spec.Path, spec.Args, &os.ProcAttr{
		Env: spec.Env, Files: []*os.File{spec.Stdin, spec.Stdout, spec.Stderr},
	})
	if err != nil {
		return nil, nil, err
	}
	code := make(chan int, 1)
	go func() { // ends with the process, for which run waits
		if st, err := p.Wait(); err == nil {
			code <- st.ExitCode()
			return
		}
		code <- CodeCannotStart
	}()
	return p, code, nil
}

//go:build unix

package supervise

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// runner is one Run.
type runner struct {
	spec   Spec
	clock  driver.Clock
	course *course
	guard  *guard
	group  *group
	tty    *terminal
	state  State
	told   syscall.Signal // see Result
	paused syscall.Signal // what stopped the command at the terminal; we have been stopped too
}

func run(ctx context.Context, spec Spec) Result {
	// The kernel ends the command with the thread that made it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	r := &runner{spec: spec, clock: driver.SystemClock()}
	r.tty = openTerminal(spec)
	defer r.tty.close()
	var err error
	if r.guard, err = startGuard(spec.Guard); err != nil {
		return Result{Code: CodeCannotStart, Err: err}
	}
	defer r.guard.dismiss()
	first := view{now: r.clock.Now(), left: spec.Left()}
	r.course = newCourse(spec, first.now)
	r.course.follow(first)
	r.warn(first) // we may be stopped before the command has a number, and it would go on
	if r.group, err = startGroup(spec, r.tty, r.guard); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Result{Code: CodeNotFound, Err: err}
		}
		return Result{Code: CodeCannotStart, Err: err}
	}
	r.warn(first)
	r.loop(ctx)
	return r.result()
}

// loop supervises the command until it has ended. Whatever wakes it, the clock
// comes first: we may have been stopped for an hour.
func (r *runner) loop(ctx context.Context) {
	timer := time.NewTimer(alarm)
	defer timer.Stop()
	v := view{}
	lost, done := r.spec.Lost, ctx.Done()
	var got os.Signal
	for {
		v.now = r.clock.Now()
		v.left = r.spec.Left()
		stopped := r.see(&v)
		switch r.course.next(v) {
		case kill:
			r.group.signal(syscall.SIGKILL)
		case stop:
			r.group.signal(r.spec.Signal)
			r.group.signal(syscall.SIGCONT) // or who is stopped would not hear of it
		case end:
			r.hear(got) // too late for the command, and not for who called us
			return
		case wait:
		}
		r.warn(v)
		r.show(r.course.state(v))
		r.pass(got)
		got = nil
		if r.job(stopped) {
			continue // we were stopped meanwhile
		}
		timer.Reset(r.course.wake(v))
		select {
		case got = <-r.spec.Signals.C():
		case <-lost:
			v.gone, lost = true, nil
		case <-done:
			v.over, done = true, nil
		case <-timer.C:
		}
	}
}

// see looks at the group, and says whether and by which signal the command was
// stopped.
func (r *runner) see(v *view) (stopped syscall.Signal) {
	stopped = r.group.look()
	v.exited = r.group.exited
	v.empty = v.exited && r.group.empty()
	return stopped
}

// warn sends the guard the group, 0 if there is none yet, and until when it may live.
func (r *runner) warn(v view) {
	group, deadline := 0, r.course.deadline
	if r.group != nil {
		group = r.group.id
	}
	if v.left <= 0 || r.spec.KeepOn {
		deadline = 0
	}
	r.guard.watch(group, deadline)
}

// show reports a new state.
func (r *runner) show(s State) {
	if s != r.state {
		r.state = s
		r.spec.Report(s)
	}
}

// pass gives a signal on. That one was sent by hand also if the command has the
// terminal: what is typed there reaches the command alone.
func (r *runner) pass(got os.Signal) {
	sig, ok := r.hear(got)
	if !ok || sig == syscall.SIGCHLD || sig == syscall.SIGPIPE {
		return
	}
	r.group.signal(sig)
}

// hear takes in which signal it was.
func (r *runner) hear(got os.Signal) (sig syscall.Signal, ok bool) {
	sig, ok = got.(syscall.Signal)
	switch sig {
	case syscall.SIGTERM:
		r.course.asked, r.told = true, sig
	case syscall.SIGINT, syscall.SIGQUIT:
		r.told = sig
	default:
	}
	return sig, ok
}

// job is job control: a command that wants the terminal gets it; if it was stopped
// there we stop too, so that the shell sees it, and go on together.
func (r *runner) job(stopped syscall.Signal) (slept bool) {
	if r.paused != 0 {
		r.tty.give(r.group.id)
		if r.paused == syscall.SIGTSTP { // or SIGCONT comes to us, and is passed on
			r.group.signal(syscall.SIGCONT)
		}
		r.paused = 0
	}
	switch stopped {
	case syscall.SIGTTIN, syscall.SIGTTOU:
		if r.tty.give(r.group.id) {
			r.group.signal(syscall.SIGCONT)
			return false
		}
	case syscall.SIGTSTP:
	default:
		return false // by hand: whoever did it will undo it
	}
	if r.tty == nil {
		return false
	}
	r.tty.take()
	r.show(Paused)
	r.paused = stopped
	r.spec.Signals.stop()
	return true
}

// result buries the command and says how it ended.
func (r *runner) result() Result {
	r.guard.dismiss() // as long as the group's number is ours
	ws := r.group.bury()
	r.tty.take()
	res := Result{Code: ws.ExitStatus(), Lost: r.course.lost, TooLong: r.course.tooLong, Ended: r.course.ended, Told: r.told}
	if ws.Signaled() {
		res.Code = CodeSignal + int(ws.Signal())
	}
	switch {
	case res.Lost && !r.spec.KeepOn:
		res.Code = CodeLost
	case res.TooLong:
		res.Code = CodeTooLong
	}
	return res
}

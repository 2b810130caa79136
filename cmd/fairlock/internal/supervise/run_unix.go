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

	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/session/driver"
)

// runner is the state of one Run.
type runner struct {
	spec   Spec
	clock  driver.Clock
	policy *policy
	guard  *guard
	group  *group
	tty    *terminal
	state  State
	signal syscall.Signal // see Result
	hangup bool           // see Result
	late   syscall.Signal // a SIGINT or SIGQUIT that came after the command's end; 0 for none
	hadTTY bool           // the command had the terminal when it ended
	rest   bool           // Spec.Rest was called
	refuse bool           // Spec.Refused was called
	paused syscall.Signal // the signal that stopped the command at the terminal, and then us
}

func run(ctx context.Context, spec Spec) Result {
	// The kernel kills the command when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	r := &runner{spec: spec, clock: driver.SystemClock()}
	r.tty = openTerminal(spec)
	defer r.tty.close()
	var err error
	r.guard, err = startGuard(spec.Guard)
	if err != nil {
		return Result{Code: CodeCannotStart, Err: err}
	}
	defer r.guard.end()
	first := view{now: r.clock.Now(), left: spec.Left()}
	if first.left <= 0 && !spec.KeepOn {
		return tooLate(spec)
	}
	r.policy = newPolicy(spec, first.now)
	r.policy.follow(first)
	r.updateGuard(first) // we may be stopped before the command has a pid, and it would run on
	r.group, err = startGroup(spec, r.tty, r.guard)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Result{Code: CodeNotFound, Err: err}
		}
		return Result{Code: CodeCannotStart, Err: err}
	}
	r.updateGuard(first)
	r.loop(ctx)
	return r.result()
}

// loop supervises the command until it has ended. Whatever wakes it, it reads the clock
// first: we may have been stopped for an hour.
func (r *runner) loop(ctx context.Context) {
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	v := view{}
	lost, done := r.spec.Lost, ctx.Done()
	var got os.Signal = syscall.SIGCHLD // orphans of an earlier Run may have ended
	for {
		if got == syscall.SIGCHLD {
			reapOrphans(r.group.id, r.guard.number())
		}
		v.now = r.clock.Now()
		v.left = r.spec.Left()
		stopped := r.observe(&v)
		switch r.policy.next(v) {
		case kill:
			r.send(syscall.SIGKILL)
		case stop:
			r.stop()
		case end:
			r.recordAll(got) // too late for the command, but not for the caller of Run
			return
		case wait:
		}
		r.updateGuard(v)
		r.show(r.policy.state(v))
		r.notice(v)
		r.forward(got)
		got = nil
		if r.jobControl(stopped) {
			continue // we were stopped meanwhile
		}
		timer.Reset(r.policy.wake(v))
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

// observe reads the state of the group into v, and returns the signal that stopped the
// command, 0 if none.
func (r *runner) observe(v *view) (stopped syscall.Signal) {
	stopped = r.group.poll()
	if r.group.exited && !v.exited {
		r.hadTTY = r.tty.take()
	}
	v.exited = r.group.exited
	v.empty = v.exited && r.group.empty()
	return stopped
}

// notice reports, once each, that the rest of the group lives on, and that we may not signal
// a process of the group.
func (r *runner) notice(v view) {
	if !r.rest && r.policy.rests(v) {
		r.rest = true
		r.spec.Rest()
	}
	if !r.refuse && !v.exited && errors.Is(unix.Kill(-r.group.id, 0), unix.EPERM) { // none of them
		r.refused(r.group.id)
	}
}

// refused reports a process that we may not signal.
func (r *runner) refused(pid int) {
	r.refuse = true
	r.spec.Refused(pid)
}

// send sends a signal to the group, and reports if a process of it does not get the signal.
func (r *runner) send(sig syscall.Signal) {
	r.group.signal(sig)
	if r.refuse {
		return
	}
	pid := r.group.refuses()
	if pid != 0 {
		r.refused(pid)
	}
}

// stop sends the group the signal to stop.
func (r *runner) stop() {
	r.send(r.spec.Signal)
	r.group.signal(syscall.SIGCONT) // a stopped process would not handle it
}

// updateGuard sends the guard the group, 0 if there is none yet, and its deadline.
func (r *runner) updateGuard(v view) {
	group, deadline := 0, r.policy.deadline
	if r.group != nil {
		group = r.group.id
	}
	if v.left <= 0 || r.spec.KeepOn {
		deadline = 0
	}
	r.guard.send(group, deadline)
}

// show reports a new state.
func (r *runner) show(s State) {
	if s != r.state {
		r.state = s
		r.spec.Report(s)
	}
}

// forward sends a signal on to the group. The signal does not come from the keyboard, even
// if the command has the terminal: a typed signal reaches only the command.
func (r *runner) forward(got os.Signal) {
	sig, ok := r.record(got)
	_, ends := Ends(sig)
	switch {
	case !ok || sig == syscall.SIGCHLD || sig == syscall.SIGPIPE:
	case ends && r.group.exited:
		r.stop() // what a shell starts in the background ignores SIGINT and SIGQUIT
	default:
		r.send(sig)
	}
}

// recordAll records a signal, and those that came after it.
func (r *runner) recordAll(got os.Signal) {
	for {
		r.record(got)
		select {
		case got = <-r.spec.Signals.C():
		default:
			return
		}
	}
}

// record records a signal for the policy and for the Result.
func (r *runner) record(got os.Signal) (sig syscall.Signal, ok bool) {
	sig, ok = got.(syscall.Signal)
	switch sig {
	case syscall.SIGTERM:
		r.policy.mustEnd, r.signal = true, sig
	case syscall.SIGINT, syscall.SIGQUIT:
		r.signal = sig
	case syscall.SIGHUP:
		r.hangup = true
	default:
	}
	_, ends := Ends(sig)
	if ends && r.group.exited { // so a SIGHUP was not meant for the command
		r.policy.mustEnd, r.signal = true, sig
		if sig == syscall.SIGINT || sig == syscall.SIGQUIT {
			r.late = sig
		}
	}
	return sig, ok
}

// jobControl handles a command that was stopped at the terminal. A command that needs the
// terminal gets it, if we have it. Otherwise, as after ^Z, we stop too, so that the shell
// sees it, and continue together. It reports whether we were stopped.
func (r *runner) jobControl(stopped syscall.Signal) (slept bool) {
	if r.paused != 0 {
		r.tty.give(r.group.id)
		if r.paused == syscall.SIGTSTP { // otherwise we get SIGCONT, and forward it
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
		return false // by a signal that another process sent; that one will continue it
	}
	if r.tty == nil {
		return false
	}
	r.tty.take() // the shell looks after the modes
	r.show(Paused)
	r.paused = stopped
	r.spec.Signals.stop()
	return true
}

// result reaps the command and returns how it ended.
func (r *runner) result() Result {
	r.guard.end() // before the reap: the group's number may be used again after it
	ws := r.group.reap()
	r.tty.take()
	if ws.Signaled() || r.policy.killed {
		r.tty.restore()
	}
	res := Result{Code: ws.ExitStatus(), Lost: r.policy.lost, TooLong: r.policy.tooLong, Ended: r.policy.ended, Signal: r.signal, Hangup: r.hangup}
	switch {
	case ws.Signaled():
		res.Code = CodeSignal + int(ws.Signal())
		sig, ends := Ends(ws.Signal())
		if ends {
			res.By, res.Typed = sig, r.hadTTY && sig != syscall.SIGTERM
		}
	case r.late != 0:
		res.Code, res.By = CodeSignal+int(r.late), r.late
	}
	switch {
	case res.Lost && !r.spec.KeepOn:
		res.Code, res.By = CodeLost, 0
	case res.TooLong:
		res.Code, res.By = CodeTooLong, 0
	}
	return res
}

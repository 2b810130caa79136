package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Run runs a command while it holds a lock. Its error has the exit code. It handles signals
// itself, so ctx must not end with them.
func Run(ctx context.Context, conn *connect.Flags, std Std, o Options) error {
	j, err := prepare(conn, std, o)
	if err != nil {
		return err
	}
	defer j.close()
	h, err := j.acquire(ctx)
	if err != nil {
		return j.failed(err)
	}
	began := j.clock.Now()
	j.granted(h)
	done, err := j.doneBefore(ctx, h)
	if err != nil || done != "" {
		_ = j.release(h) // nothing has run
		if err == nil {
			j.rep.info("skipped: already ran (%s)", done)
		}
		return exit.Of(err)
	}
	err = j.writeToken(h)
	if err != nil {
		_ = j.release(h) // nothing has run
		return err
	}
	res, onLost := j.supervise(ctx, h)
	if succeeded(res) {
		j.markDone(ctx, h)
	}
	ctx, stop := j.interruptible(ctx)
	outlived := !res.Lost && !interrupts(res) && j.holdUntil(ctx, h, began.Add(j.MinHold))
	j.finish(h, &res, onLost, outlived)
	if i, ok := errors.AsType[*interrupted](stop()); ok {
		interrupt(&res, i.signal)
	}
	return j.end(res)
}

// interrupt changes a result for a SIGINT or SIGQUIT that came after the command, unless
// fairlock had a reason of its own for the code. A shell that called us got the signal too,
// and goes on with its script or its loop if we seem to have handled it.
func interrupt(res *supervise.Result, sig syscall.Signal) {
	own := res.Lost || res.TooLong || res.Ended
	if !own && (sig == syscall.SIGINT || sig == syscall.SIGQUIT) {
		res.Code, res.By, res.Typed = supervise.CodeSignal+int(sig), sig, false
	}
}

// succeeded reports whether a command did all of its work. One that handles a signal may
// end early with code 0.
func succeeded(res supervise.Result) bool {
	return res.Code == 0 && !res.Lost && res.Signal == 0 && !res.Hangup
}

// finish releases the lock after the command, and waits for the program of --on-lost-exec.
// If only the release finds that the lock was lost, the next holder's command may have run
// at the same time, and res then reports the loss. A deadline that has passed since the
// command ended is no loss for it, and none is if the hold has outlived the command.
func (j *job) finish(h *session.Hold, res *supervise.Result, onLost *lossProgram, outlived bool) {
	lost := j.release(h)
	if lost != nil && !outlived && !res.Lost && res.Err == nil && !errors.Is(lost, session.ReasonDeadline) {
		j.rep.warn("the lock is lost: %s", reason(lost))
		onLost.start(lost)
		res.Lost = true
		if !j.Warn {
			res.Code = exit.Lost
		}
	}
	onLost.wait()
}

// supervise runs the command for as long as the hold lasts. The program of --on-lost-exec
// may still run when it returns.
//
//nolint:contextcheck // the hold's own context, which ends with the hold
func (j *job) supervise(ctx context.Context, h *session.Hold) (supervise.Result, *lossProgram) {
	l := &lease{hold: h, clock: j.clock}
	ctx, stop := j.untilAsked(ctx, h)
	defer stop()
	onLost := j.lossProgram(h)
	j.rep.flush() // before the command prints
	res := supervise.Run(ctx, supervise.Spec{
		Path: j.path, Args: j.Command, Env: j.environment(h),
		Stdin: j.std.In, Stdout: j.std.Out, Stderr: j.std.Err,
		Left: l.left, Lost: h.Context().Done(), Least: j.least,
		Grace: *j.Grace, Signal: j.Signal, MaxRun: j.MaxRun, KeepOn: j.Warn, Foreground: j.Foreground,
		Guard: []string{"fairlock", "guard"}, Signals: j.sigs, Leave: j.Close, Rest: j.rest, Refused: j.refused,
		Report: func(s supervise.State) {
			j.state(h, l, s)
			if s == supervise.Lost {
				onLost.start(context.Cause(h.Context()))
			}
		},
	})
	if res.Lost { // the command may have ended before the deadline
		onLost.start(context.Cause(h.Context()))
	}
	if res.Ended && !res.Lost && !res.TooLong {
		res.Code = exit.Yielded
	}
	return res, onLost
}

// rest reports that the command has ended, and the lock is held.
func (j *job) rest() {
	j.rep.warn("the command has ended, and processes that it has left run on: the lock is held until they end (--close releases it)")
}

// refused reports a process that nothing can stop.
func (j *job) refused(pid int) {
	j.rep.warn("warning: process %d of the command runs as another user, so fairlock cannot stop it, even if the lock is lost: run fairlock itself as that user", pid)
}

// states are the states of a command as programs see them. Paused has none: it is not a
// state of the lock.
var states = map[supervise.State]string{
	supervise.Held: schema.StateHeld, supervise.Suspect: schema.StateSuspect,
	supervise.Stopping: schema.StateStopping, supervise.Lost: schema.StateLost,
}

// state reports a state of the command.
//
//nolint:contextcheck // the hold's own context, which ends with the hold
func (j *job) state(h *session.Hold, l *lease, s supervise.State) {
	left := l.left()
	why := ""
	if err := context.Cause(h.Context()); err != nil {
		why = err.Error()
	}
	healthy := j.rep.setHealthy(s == supervise.Held)
	switch s {
	case supervise.Held:
		if healthy { // granted has reported it
			return
		}
		j.rep.info("renewed, the lock is good for another %s", age(left))
	case supervise.Suspect:
		j.rep.info("no renewal is acknowledged, the lock is good for another %s", age(left))
	case supervise.Paused:
		j.rep.info("stopped; the lock is good for another %s", age(left))
	case supervise.Stopping:
		j.rep.info("the command is asked to stop, the lock is good for another %s", age(left))
	case supervise.Lost:
		j.rep.warn("the lock is lost: %s", reason(context.Cause(h.Context())))
	}
	state, ok := states[s]
	if !ok {
		j.rep.flush() // before the whole process stops
		return
	}
	j.rep.report(state, func(st *schema.Status) {
		st.Token, st.Left, st.Reason = int64(h.Token()), schema.Seconds(left), why
	})
}

// reason returns why a hold was lost.
func reason(err error) string {
	if lost, ok := errors.AsType[*session.LostError](err); ok {
		return lost.Reason.Error()
	}
	return fmt.Sprint(err)
}

// granted reports the grant.
func (j *job) granted(h *session.Hold) {
	j.rep.setHealthy(true) // the hold before may have been lost
	j.rep.report(schema.StateHeld, func(s *schema.Status) {
		s.Token, s.Left = int64(h.Token()), schema.Seconds(h.Remaining())
	})
}

// release releases the lock, and returns how it was lost, nil if it was not. If the release
// is not acknowledged, the entry ends with the session, so the caller has nothing to do.
func (j *job) release(h *session.Hold) (lost error) {
	err := h.Unlock()
	state := schema.StateReleased
	switch {
	case errors.Is(err, session.ErrLost):
		state, lost = schema.StateLost, err
	case err != nil:
		j.rep.info("the release is not acknowledged: %s; the lock is free at the latest when the session ends, within %s", exit.Plain(err), age(j.s.Options().TTL))
	}
	j.rep.report(state, func(s *schema.Status) {
		s.Token = int64(h.Token())
		if err != nil {
			s.Reason = err.Error()
		}
	})
	return lost
}

// interrupts reports whether a signal that ended the command is meant to end us too: we got
// it, or it was typed, or the terminal was hung up. Such a signal reaches only the command
// if that has the terminal.
func interrupts(res supervise.Result) bool {
	switch syscall.Signal(res.Code - supervise.CodeSignal) {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT:
		return true
	default:
		return res.Signal != 0
	}
}

// eventTime is more than an event needs to come, unless its session is about to be lost.
const eventTime = time.Second

// holdUntil keeps the lock until a time, unless ctx ends or the lock is lost. It reports
// whether the hold has lasted so long after the command that no event of its end is late.
//
//nolint:contextcheck // the hold's own context, which ends with the hold
func (j *job) holdUntil(ctx context.Context, h *session.Hold, until driver.Instant) (outlived bool) {
	began := j.clock.Now()
	left := until.Sub(began)
	if left <= 0 {
		return false
	}
	j.rep.info("the command has ended; --min-hold keeps the lock for another %s", age(left))
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-h.Context().Done():
	}
	return j.clock.Now().Sub(began) > eventTime
}

// end reports how the command ended, and returns the error with the exit code.
func (j *job) end(res supervise.Result) error {
	switch {
	case res.Lost && res.Err != nil:
		j.rep.warn("lost the lock before the command was started")
	case res.Err != nil:
		return exit.With(res.Code, res.Err)
	case res.Lost && !j.Warn:
		j.rep.warn("lost the lock, and the command is dead")
	case res.Ended:
		j.rep.warn("was asked to yield, and stopped the command")
	case res.TooLong:
		j.rep.warn("the command ran for longer than %s, and was stopped", j.MaxRun)
	}
	switch {
	case res.Code == 0:
		return nil
	case res.By != 0 && res.Code == supervise.CodeSignal+int(res.By): // and not another code for a reason of ours
		return exit.BySignal(res.By, res.Typed)
	}
	return exit.Silently(res.Code)
}

// checkTokenFile returns an error if the token cannot be written, before the lock is
// requested.
func (j *job) checkTokenFile() error {
	if j.TokenFile == "" {
		return nil
	}
	err := error(syscall.EISDIR)
	at, _ := os.Stat(j.TokenFile)
	if at == nil || !at.IsDir() {
		var f *os.File
		f, err = newTokenFile(j.TokenFile)
		if err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	p := (*os.PathError)(nil)
	if errors.As(err, &p) {
		err = p.Err // its path is that of the temporary file
	}
	if err != nil {
		return exit.Errorf(exit.Usage, "--token-file %s: %w", j.TokenFile, err)
	}
	return nil
}

// newTokenFile creates a temporary file in the folder of path, to be renamed to path.
func newTokenFile(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), ".fairlock-token-*")
}

// writeToken writes the token to a file, atomically.
func (j *job) writeToken(h *session.Hold) error {
	if j.TokenFile == "" {
		return nil
	}
	f, err := newTokenFile(j.TokenFile)
	if err == nil {
		_, err = fmt.Fprintln(f, strconv.FormatInt(int64(h.Token()), 10))
		err = driver.JoinErrors(err, f.Chmod(0o644), f.Close())
		if err == nil {
			err = os.Rename(f.Name(), j.TokenFile)
		}
		if err != nil {
			_ = os.Remove(f.Name()) // err has the reason
		}
	}
	if err != nil {
		return exit.Errorf(exit.Software, "--token-file: %w", err)
	}
	return nil
}

package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Run runs a command while it holds a lock. Its error has the exit code. Signals
// are its own matter: ctx is not to end with them.
func Run(ctx context.Context, conn *connect.Flags, std Std, o Options) error {
	j, err := prepare(conn, std, o)
	if err != nil {
		return err
	}
	defer j.close()
	h, err := j.acquire(ctx)
	if err != nil {
		return j.leave(err)
	}
	began := j.clock.Now()
	j.granted(h)
	done, err := j.doneBefore(ctx, h)
	if err != nil || done != "" {
		j.release(h)
		if err == nil {
			j.tell.say("skipped: already ran (%s)", done)
		}
		return exit.Of(err)
	}
	if err = j.writeToken(h); err != nil {
		j.release(h)
		return err
	}
	res := j.supervise(ctx, h)
	if res.Code == 0 && !res.Lost {
		j.markDone(ctx, h)
	}
	if !res.Lost {
		j.linger(h, began.Add(j.MinHold))
	}
	j.release(h)
	return j.end(res)
}

// supervise runs the command for as long as the hold lasts.
//
//nolint:contextcheck // the hold's own context, which ends with the hold
func (j *job) supervise(ctx context.Context, h *session.Hold) supervise.Result {
	l := &lease{hold: h, clock: j.clock}
	ctx, stop := j.heed(ctx, h)
	defer stop()
	m := j.mourner(h)
	res := supervise.Run(ctx, supervise.Spec{
		Path: j.path, Args: j.Command, Env: j.environment(h),
		Stdin: j.std.In, Stdout: j.std.Out, Stderr: j.std.Err,
		Left: l.left, Lost: h.Context().Done(), RenewEvery: j.window.renewEvery(),
		Grace: *j.Grace, Signal: j.Signal, MaxRun: j.MaxRun, KeepOn: j.Warn, Foreground: j.Foreground,
		Guard: []string{"fairlock", "guard"}, Signals: j.sigs,
		Report: func(s supervise.State) {
			if j.state(h, l, s); s == supervise.Lost {
				m.start()
			}
		},
	})
	if res.Lost { // it may have ended before the time was over
		m.start()
	}
	m.wait()
	if res.Ended && !res.Lost && !res.TooLong {
		res.Code = exit.Yielded
	}
	return res
}

// state tells of a state of the command.
//
//nolint:contextcheck // the hold's own context, which ends with the hold
func (j *job) state(h *session.Hold, l *lease, s supervise.State) {
	left := l.left()
	why := ""
	if err := context.Cause(h.Context()); err != nil {
		why = err.Error()
	}
	calm := j.tell.calm(s == supervise.Held)
	switch s {
	case supervise.Held:
		if calm { // told when the lock was granted
			return
		}
		j.tell.say("renewed, the lock is good for another %s", age(left))
	case supervise.Suspect:
		j.tell.say("no renewal is acknowledged, the lock is good for another %s", age(left))
	case supervise.Paused:
		j.tell.say("stopped; the lock is good for another %s", age(left))
	case supervise.Stopping:
		j.tell.say("the command gets SIGTERM, the lock is good for another %s", age(left))
	case supervise.Lost:
		j.tell.alarm("the lock is lost: %s", reason(h))
	}
	if s == supervise.Paused { // no state of the lock
		return
	}
	j.tell.report(string(s), func(st *schema.Status) {
		st.Token, st.Left, st.Reason = int64(h.Token()), schema.Seconds(left), why
	})
}

// reason is why a hold was lost.
//
//nolint:contextcheck // the hold's own context, which ends with the hold
func reason(h *session.Hold) string {
	err := context.Cause(h.Context())
	if lost, ok := errors.AsType[*session.LostError](err); ok {
		return lost.Reason.Error()
	}
	return fmt.Sprint(err)
}

// granted tells that we hold.
func (j *job) granted(h *session.Hold) {
	j.tell.report(schema.StateHeld, func(s *schema.Status) {
		s.Token, s.Left = int64(h.Token()), schema.Seconds(h.Remaining())
	})
}

// release gives the lock back. What is not acknowledged goes with the session,
// so there is nothing for the caller to do.
func (j *job) release(h *session.Hold) {
	err := h.Unlock()
	state := schema.StateReleased
	switch {
	case errors.Is(err, session.ErrLost):
		state = schema.StateLost
	case err != nil:
		j.tell.say("the release is not acknowledged: %s; the lock is free at the latest when the session ends, within %s", exit.Plain(err), age(j.s.Options().TTL))
	}
	j.tell.report(state, func(s *schema.Status) {
		s.Token = int64(h.Token())
		if err != nil {
			s.Reason = err.Error()
		}
	})
}

// linger keeps the lock for its least time, unless a signal comes, or it is lost.
func (j *job) linger(h *session.Hold, until driver.Instant) {
	left := until.Sub(j.clock.Now())
	if left <= 0 {
		return
	}
	ctx, stop := j.interruptible(h.Context())
	ctx, cancel := context.WithTimeout(ctx, left)
	<-ctx.Done()
	cancel()
	_ = stop()
}

// end is the exit of a command that has run, or could not be.
func (j *job) end(res supervise.Result) error {
	switch {
	case res.Err != nil:
		return exit.With(res.Code, res.Err)
	case res.Lost && !j.Warn:
		j.tell.alarm("lost the lock while the command ran, and stopped it")
	case res.Ended:
		j.tell.alarm("was asked to yield, and stopped the command")
	case res.TooLong:
		j.tell.alarm("the command ran for longer than %s, and was stopped", j.MaxRun)
	}
	if res.Code == 0 {
		return nil
	}
	return exit.Silently(res.Code)
}

// tryTokenFile says why the token could not be written, before anybody waits for
// it.
func (j *job) tryTokenFile() error {
	if j.TokenFile == "" {
		return nil
	}
	err := error(syscall.EISDIR)
	if at, _ := os.Stat(j.TokenFile); at == nil || !at.IsDir() {
		var f *os.File
		if f, err = newTokenFile(j.TokenFile); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		err = p.Err // the path in it is not the one that was given
	}
	if err != nil {
		return exit.Errorf(exit.Usage, "--token-file %s: %w", j.TokenFile, err)
	}
	return nil
}

// newTokenFile makes a file beside the one at path, which is to take its place.
func newTokenFile(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), ".fairlock-token-*")
}

// writeToken writes the token to a file, all of it or nothing.
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
			_ = os.Remove(f.Name()) // the reason is told
		}
	}
	if err != nil {
		return exit.Errorf(exit.Software, "--token-file: %w", err)
	}
	return nil
}

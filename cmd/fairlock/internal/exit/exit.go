// Package exit has the exit codes of fairlock, and errors that carry one. Scripts branch
// on the codes. They are those of sysexits, flock and timeout where these have one.
package exit

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

// The codes. A command that runs another passes on the code of that one, or 128 plus the
// number of the signal that ended it.
const (
	OK            = 0
	Failed        = 1   // the command ran, and found something wrong
	Usage         = 64  // wrong usage
	Unavailable   = 69  // the service cannot be reached, or refuses
	Software      = 70  // anything else that went wrong
	NotAcquired   = 75  // the lock was not acquired in time
	Denied        = 77  // wrong credentials, or a permission is missing
	Lost          = 79  // the lock was lost while the command ran
	Yielded       = 80  // the lock was released early, because of a yield request
	NotExecutable = 126 // the program exists, but cannot be executed
	NotFound      = 127 // the program does not exist
	Interrupted   = 130 // 128 plus the number of SIGINT
)

// NoSuchName is the code for a lock without a holder and a waiter: as with grep, nothing
// matches.
const NoSuchName = Failed

// Error is an error with an exit code. Every other error of a command means wrong usage.
// If Err is nil, no message is printed. Of does not change the code.
type Error struct {
	Code int
	Err  error

	// Signal is the signal by which the process is to end, 0 for none; Code is then 128 plus
	// it. Group reports whether the other processes of its process group are to get it too.
	Signal syscall.Signal
	Group  bool
}

// Error returns the text of Err.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// With returns err with a code; nil if err is nil.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: code, Err: err}
}

// Errorf returns an error as fmt.Errorf does, with a code.
func Errorf(code int, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Silently returns an error that ends a command with a code and without a message.
func Silently(code int) error { return &Error{Code: code} }

// BySignal returns an error that ends a command by a signal and without a message.
func BySignal(sig syscall.Signal, group bool) error {
	return &Error{Code: 128 + int(sig), Signal: sig, Group: group}
}

// Of returns an error of the library with its exit code. It returns nil if err is nil,
// and err itself if it has a code.
func Of(err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Code: code(err), Err: err}
}

func code(err error) int {
	for _, c := range []struct {
		err  error
		code int
	}{
		{session.ErrLost, Lost}, // first: why it was lost may be one of the others
		{session.ErrDenied, Denied},
		{session.ErrRefused, Unavailable},
		{session.ErrUnavailable, Unavailable},
		{session.ErrNotAcquired, NotAcquired},
		{session.ErrInvalidName, Usage},
		{yield.ErrInvalidReason, Usage},
		{session.ErrGone, Failed},
		{session.ErrInvalidOptions, Usage},
		{session.ErrWeight, Usage},
		{session.ErrLimitMismatch, Usage},
		{context.DeadlineExceeded, Unavailable}, // last: NotAcquired is more
	} {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return Software
}

// Plain returns in plain words why the service did not do something, for a terminal.
// It names no layer of the library; logs do.
func Plain(err error) string {
	switch {
	case errors.Is(err, session.ErrDenied):
		return "a permission is missing at the service"
	case errors.Is(err, session.ErrRefused):
		return "the service refuses it"
	case errors.Is(err, session.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return "the service does not answer"
	case errors.Is(err, session.ErrReleasePending):
		return "the service has not acknowledged it yet"
	}
	return err.Error()
}

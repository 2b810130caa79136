// Package exit is how commands of fairlock end: with codes that scripts branch
// on, those of sysexits, flock and timeout where they have one.
package exit

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/session"
)

// The codes. A command that ran another passes on that one's code, or 128 and
// the number of the signal that it died of.
const (
	OK            = 0
	Failed        = 1   // it ran, and found something wrong
	Usage         = 64  // it was called in the wrong way
	Unavailable   = 69  // the service cannot be reached, or refuses
	Software      = 70  // anything else that went wrong
	NotAcquired   = 75  // the lock was not to be had in time
	Denied        = 77  // wrong credentials, or a permission is missing
	Lost          = 79  // the lock was lost while the command ran
	Yielded       = 80  // it was given back before its time, because somebody asked for it
	TimedOut      = 124 // the command took too long
	NotExecutable = 126 // it is there, and cannot be run
	NotFound      = 127 // it is not there
	Interrupted   = 130 // 128 and SIGINT
)

// NoSuchName is the code for a lock without a holder and a waiter: as of grep, there
// is nothing to show.
const NoSuchName = Failed

// Error is the error of a command that ran: every other error means that it was
// called in the wrong way. Without an Err nothing is said, and nobody's word
// changes the code.
type Error struct {
	Code int
	Err  error
}

// Error is what Err says.
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

// Errorf is With of fmt.Errorf.
func Errorf(code int, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Silently ends a command with a code, and says nothing.
func Silently(code int) error { return &Error{Code: code} }

// Of returns an error of the library with the code that it stands for; nil if
// err is nil, and err itself if it has a code.
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
		{session.ErrInvalidReason, Usage},
		{session.ErrGone, Failed},
		{session.ErrInvalidOptions, Usage},
		{session.ErrWeight, Usage},
		{session.ErrLimitMismatch, Usage},
	} {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return Software
}

// Plain says in plain words why the service did not do something, for a terminal:
// which layer said it, and how, is for logs.
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

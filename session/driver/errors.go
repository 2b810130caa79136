package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The conditions that layers above branch on. Backends wrap them around the
// service's own error, which stays in the chain.
var (
	// ErrGone: the entry is not there, and was not when the request came.
	ErrGone = errors.New("entry is gone")

	// ErrSessionOver: the service session is over, or was told to stop.
	ErrSessionOver = errors.New("service session is over")

	// ErrDenied: wrong credentials, or a permission is missing.
	ErrDenied = errors.New("denied by the service")

	// ErrRefused: the service refuses until an operator acts: a quota alarm, a
	// corrupt member, a layout that it cannot hold.
	ErrRefused = errors.New("refused by the service")

	// ErrLimitMismatch: the line has another limit.
	ErrLimitMismatch = errors.New("limit mismatch")

	// ErrClosed: the Session was closed, or the client that it works on, so that
	// nothing can be sent any more.
	ErrClosed = errors.New("session is closed")

	// ErrUnavailable: no server answered in time. Waiting may cure it.
	ErrUnavailable = errors.New("service is unreachable")
)

// Incurable says that waiting and asking again cannot help.
func Incurable(err error) bool {
	return errors.Is(err, ErrDenied) || errors.Is(err, ErrRefused) || errors.Is(err, ErrClosed)
}

// PendingError is the error of a Join whose outcome is unknown: the entry may
// exist, or may come to exist when a delayed request arrives.
type PendingError struct {
	Err error

	// Settle makes sure that nothing of the request is left, or comes. Nil:
	// that is certain now. An error: not yet, call it again. It is idempotent
	// and safe to call after the session is over.
	Settle func(ctx context.Context) error
}

// Error says that the outcome is unknown, and why.
func (e *PendingError) Error() string { return fmt.Sprintf("outcome unknown: %v", e.Err) }

// Unwrap returns the cause.
func (e *PendingError) Unwrap() error { return e.Err }

// TakenError is the answer to a Join with IfEmpty on a line that is not empty.
type TakenError struct {
	First Entry // who stands first; zero if the answer did not tell
	Count int   // how many stand there
}

// Error says how many stand in the line.
func (e *TakenError) Error() string { return fmt.Sprintf("line is taken: %d in it", e.Count) }

// LimitError is the answer to a Join with another limit than the line has.
type LimitError struct {
	Limit int64 // the line's
	Asked int64 // the caller's
}

// Error names both.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit mismatch: the line has %d, the caller says %d", e.Limit, e.Asked)
}

// Is makes errors.Is(err, ErrLimitMismatch) true.
func (e *LimitError) Is(target error) bool { return target == ErrLimitMismatch }

// JoinErrors is errors.Join with a text on one line: errors end up in logs that
// have one line for each.
func JoinErrors(errs ...error) error {
	all := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return joinedErrors(all)
}

type joinedErrors []error

func (j joinedErrors) Error() string {
	texts := make([]string, len(j))
	for i, err := range j {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (j joinedErrors) Unwrap() []error { return j }

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

	// ErrSessionOver: the service session is over, or was abandoned.
	ErrSessionOver = errors.New("service session is over")

	// ErrDenied: wrong credentials, or a permission is missing.
	ErrDenied = errors.New("denied by the service")

	// ErrRefused: the service refuses until an operator acts: a quota alarm, a
	// corrupt member, a layout that it cannot hold.
	ErrRefused = errors.New("refused by the service")

	// ErrLimitMismatch: the queue has a different limit.
	ErrLimitMismatch = errors.New("limit mismatch")

	// ErrClosed: the Session was closed, or the client that it uses, so that nothing
	// can be sent any more.
	ErrClosed = errors.New("session is closed")

	// ErrUnavailable: no server answered in time. Waiting may cure it.
	ErrUnavailable = errors.New("service is unreachable")
)

// Incurable reports whether waiting and sending the request again cannot help.
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

// Error returns that the outcome is unknown, and why.
func (e *PendingError) Error() string { return fmt.Sprintf("outcome unknown: %v", e.Err) }

// Unwrap returns the cause.
func (e *PendingError) Unwrap() error { return e.Err }

// TakenError is the error of a Join with IfEmpty on a queue that is not empty.
type TakenError struct {
	First Entry // the first entry; zero if the answer did not contain it
	Count int   // how many entries the queue has
}

// Error returns the number of entries in the queue.
func (e *TakenError) Error() string {
	return fmt.Sprintf("queue is not empty: it has %d entries", e.Count)
}

// LimitError is the error of a Join with a different limit than the queue has.
type LimitError struct {
	Limit int64 // the queue's
	Asked int64 // the caller's
}

// Error names both.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit mismatch: the service has %d, the caller gave %d", e.Limit, e.Asked)
}

// Is makes errors.Is(err, ErrLimitMismatch) true.
func (e *LimitError) Is(target error) bool { return target == ErrLimitMismatch }

// JoinErrors is errors.Join with a text on one line: each record of a log is one.
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

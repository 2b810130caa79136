package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The conditions that layers above branch on. Backends wrap them around the service's
// own error, which stays in the chain.
var (
	// ErrGone: the entry is not there, and was not when the request came.
	ErrGone = errors.New("entry is gone")

	// ErrSessionOver: the service session is over, or was abandoned.
	ErrSessionOver = errors.New("service session is over")

	// ErrDenied: wrong credentials, or a permission is missing.
	ErrDenied = errors.New("denied by the service")

	// ErrRefused: the service refuses until an operator acts: a quota alarm, a corrupt
	// member, a layout that it cannot hold.
	ErrRefused = errors.New("refused by the service")

	// ErrClosed: the Session was closed, or the client that it uses, so that nothing can
	// be sent any more.
	ErrClosed = errors.New("session is closed")

	// ErrUnavailable: no server answered in time, or the service is in a quarantine, and the
	// text names the time that is left. Waiting may cure it.
	ErrUnavailable = errors.New("service is unreachable")
)

// Incurable reports whether waiting and sending the request again cannot help.
func Incurable(err error) bool {
	return errors.Is(err, ErrDenied) || errors.Is(err, ErrRefused) || errors.Is(err, ErrClosed)
}

// Outcome returns the error of a call whose attempts ended with err. ErrDenied and ErrRefused
// mean that nothing was done, so they are left out of the chain if an earlier attempt may have
// been carried out (unknown).
func Outcome(err error, unknown bool) error {
	if unknown && (errors.Is(err, ErrDenied) || errors.Is(err, ErrRefused)) {
		return OutcomeUnknown(err)
	}
	return err
}

// OutcomeUnknown returns an ErrUnavailable for a call of which an attempt may have been carried
// out, and whose last attempt ended with err. It leaves err out of the chain.
func OutcomeUnknown(err error) error {
	return fmt.Errorf("%w: an attempt was not answered, and now: %s", ErrUnavailable, err.Error())
}

// ContextError returns an ErrUnavailable for a call whose context has ended. The cause of the
// context is the caller's own: a hold's context, for example, ends with a *session.LostError. It
// is in the text only, because in the chain it would look like an answer of the service.
func ContextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == context.DeadlineExceeded { //nolint:errorlint // one that wraps it is the caller's own
		err = cause
	}
	if cause == err { //nolint:errorlint // the same
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w: %s", ErrUnavailable, err, cause.Error())
}

// PendingError is the error of a Join whose outcome is unknown: the entries may exist,
// or may come to exist when a delayed request arrives. Its Settle deletes the entries, and
// with each the records that an Op with the condition Absent has made in its queue; what
// other Ops have written stays. Of an entry that has gone before, the records stay too, as
// in a Leave: another client may have seen them. When the session is over, Settle may
// return an error that wraps ErrSessionOver: then the entries end with the session.
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
	Queue string
	First Entry // the first entry; zero if the answer did not contain it
	Count int   // how many entries the queue has; -1 if not known
}

// Error returns the number of entries in the queue.
func (e *TakenError) Error() string {
	return fmt.Sprintf("queue %q is not empty: it has %d entries", e.Queue, e.Count)
}

// RefusedError is the error of a Join or Update of which a required Op's condition
// does not hold. Nothing was done; see Session.Update for attempts without an answer.
type RefusedError struct {
	Queue  string
	Op     Op
	Record Record // as it was; zero if it was not there
	Known  bool   // whether Record is known
}

// Error names the record.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("record %q of queue %q is not as the request requires", e.Op.Record, e.Queue)
}

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

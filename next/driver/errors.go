package driver

import (
	"fmt"

	old "github.com/fairlock/fairlock/session/driver"
)

// The conditions that layers above branch on. Backends wrap them around the service's
// own error, which stays in the chain.
var (
	// ErrGone: the entry is not there, and was not when the request came.
	ErrGone = old.ErrGone

	// ErrSessionOver: the service session is over, or was abandoned.
	ErrSessionOver = old.ErrSessionOver

	// ErrDenied: wrong credentials, or a permission is missing.
	ErrDenied = old.ErrDenied

	// ErrRefused: the service refuses until an operator acts: a quota alarm, a corrupt
	// member, a layout that it cannot hold.
	ErrRefused = old.ErrRefused

	// ErrClosed: the Session was closed, or the client that it uses, so that nothing can
	// be sent any more.
	ErrClosed = old.ErrClosed

	// ErrUnavailable: no server answered in time. Waiting may cure it.
	ErrUnavailable = old.ErrUnavailable
)

// Incurable reports whether waiting and sending the request again cannot help.
func Incurable(err error) bool { return old.Incurable(err) }

// PendingError is the error of a Join whose outcome is unknown: the entries may exist,
// or may come to exist when a delayed request arrives. Its Settle deletes the entries, and
// with each the records that an Op with the condition Absent has made in its queue; what
// other Ops have written stays. Of an entry that has gone before, the records stay too, as
// in a Leave: another client may have seen them. When the session is over, Settle may
// return an error that wraps ErrSessionOver: then the entries end with the session.
type PendingError = old.PendingError

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
// does not hold. Nothing was done.
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
func JoinErrors(errs ...error) error { return old.JoinErrors(errs...) }

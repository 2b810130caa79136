package conn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// The errors of servers for which the library has no value.
var (
	// ErrQuota: a quota on the node, or on one above it, is used up.
	ErrQuota = errors.New("a quota is used up")

	// ErrUnimplemented: the server is too old for the request, or a setting of it is off.
	ErrUnimplemented = errors.New("the server does not implement the request")
)

// UnknownError is the error of a request that was sent and whose answer has not come.
type UnknownError struct {
	// Late receives the answer if that comes after the context has ended, and is closed when the
	// connection is lost without it.
	Late <-chan Answer

	// Err is why there is no answer. It wraps driver.ErrUnavailable, driver.ErrSessionOver, or
	// driver.ErrRefused: large requests have ended three connections in a row, so this one is
	// probably longer than what the servers take. Then the caller must not send it again.
	Err error
}

// Error returns that the outcome is unknown, and why.
func (e *UnknownError) Error() string { return fmt.Sprintf("outcome unknown: %v", e.Err) }

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }

// Why a connection or a session has ended.
var (
	errSilent    = errors.New("no answer") // for so long that the connection is taken for dead
	errOrder     = errors.New("a request or a reply came out of order")
	errUnneeded  = errors.New("no longer needed")
	errExpired   = errors.New("zookeeper has no such session: it expired or was closed by another client")
	errShortened = errors.New("zookeeper: the session was given a shorter timeout")
	errEnsemble  = errors.New("zookeeper: a standalone server has joined an ensemble, where the session needs other renewals")

	// errOddAnswer: a transaction was answered by something else. What it did is unknown.
	errOddAnswer = errors.New("zookeeper: the answer to a transaction has the wrong form")
)

// sizeError: a packet is longer than what is read, or too short.
type sizeError struct {
	size uint32
	most int
}

func (e *sizeError) Error() string {
	return fmt.Sprintf("a packet of %d bytes, want %d to %d: there are too many children, or this is no ZooKeeper server",
		e.size, headerSize, e.most)
}

// A server answers a request that is longer than its jute.maxbuffer by closing the connection. To
// send it for ever would cut off everything else of the session each time.
const (
	longestRequest = 0xfffff  // jute.maxbuffer by default
	largeRequest   = 64 << 10 // what is called large: no server is known to take less
	maxCuts        = 3        // connections in a row that large requests may end
)

// cutTooOften is the error of a large request on which servers have closed the connection.
func cutTooOften(size int) error {
	return fmt.Errorf("%w: a request of %d bytes, or another large one, ended the connection %d times: is jute.maxbuffer of the servers smaller?",
		driver.ErrRefused, size, maxCuts)
}

// notSent is the error of a request that the library refuses.
func notSent(err error) error {
	if errors.Is(err, zk.ErrShortBuffer) {
		return fmt.Errorf("%w: the request is longer than the %d bytes that a server takes by default: %w",
			driver.ErrRefused, longestRequest, err)
	}
	return fmt.Errorf("%w: the request cannot be sent: %w", driver.ErrRefused, err)
}

// outcome is what an error says of its request.
type outcome int

const (
	done    outcome = iota // nil
	refused                // answered, and not carried out
	expired                // answered: there is no such session
	lost                   // not answered, or by a server that cannot serve
)

// outcomeOf reads an error of the library. For codes that it does not know the library has only a text, with the code
// in it; they get an error of this package.
func outcomeOf(err error) (outcome, error) {
	switch {
	case err == nil:
		return done, nil
	case errors.Is(err, zk.ErrSessionExpired):
		return expired, err
	}
	for _, e := range []error{
		zk.ErrAPIError, zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists,
		zk.ErrNotEmpty, zk.ErrInvalidACL, zk.ErrInvalidFlags, zk.ErrAuthFailed, zk.ErrInvalidPath, zk.ErrBadArguments,
	} {
		if errors.Is(err, e) {
			return refused, err
		}
	}
	switch code, ok := strings.CutPrefix(err.Error(), "unknown error: "); {
	case !ok, // zk.ErrSessionMoved too: another connection speaks for the session
		code == "-1", code == "-4", code == "-7", code == "-127": // system error, connection loss, timeout, overload
		return lost, err
	case code == "-125":
		return refused, fmt.Errorf("%w: %w", ErrQuota, err)
	case code == "-6":
		return refused, fmt.Errorf("%w: %w", ErrUnimplemented, err)
	}
	return refused, fmt.Errorf("%w: %w", zk.ErrAPIError, err)
}

// ended is the error of what a context has ended; why is what kept it waiting, or nil.
func ended(ctx context.Context, why error) error {
	err := fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

package conn

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// The errors of servers for which the library has no value.
var (
	// ErrQuota: a quota on the node, or on one above it, is used up.
	ErrQuota = errors.New("a quota is used up")

	// ErrUnimplemented: the server is too old for the request, or a setting of it is off.
	ErrUnimplemented = errors.New("the server does not implement the request")

	// ErrLocalSession: the servers give sessions that cannot have ephemeral nodes.
	ErrLocalSession = errors.New("the servers give local sessions (localSessionsEnabled) and do not upgrade them " +
		"(localSessionsUpgradingEnabled), and those cannot have ephemeral nodes")
)

// UnknownError is the error of a request that was sent and whose answer has not come.
type UnknownError struct {
	// Err is why there is no answer. It wraps driver.ErrUnavailable, driver.ErrSessionOver or
	// driver.ErrRefused. The last means that the answer was longer than what is allowed.
	Err error
}

// Error returns that the outcome is unknown, and why.
func (e *UnknownError) Error() string { return fmt.Sprintf("outcome unknown: %v", e.Err) }

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }

// The reasons why a connection or a session ends.
var (
	errSilent    = errors.New("no answer") // for so long that the connection is taken for dead
	errOrder     = errors.New("a request or a reply came out of order")
	errUnneeded  = errors.New("no longer needed")
	errExpired   = errors.New("zookeeper has no such session: it expired or was closed by another client")
	errShortened = errors.New("zookeeper: the session was given a shorter timeout")
	errEnsemble  = errors.New("zookeeper: a standalone server has joined an ensemble, where the session needs other renewals")

	// errOddAnswer: the answer is not that of the transaction. Whether that was carried out is unknown.
	errOddAnswer = errors.New("zookeeper: the answer to a transaction has the wrong form")

	// errSize: a packet is longer than the limit, or too short.
	errSize = errors.New("there are too many children, or this is no ZooKeeper server")
)

// longestRequest is the default of jute.maxbuffer, the longest request that a server reads.
//
// Not handled: a server with a smaller jute.maxbuffer, which closes the connection on a longer request, and a network
// that needs more than pace.timeout to carry one. The session sends such a request again on each connection until
// its context ends, and what waits behind it waits as long. To recognise the request cost more than it was worth:
// nothing but a large value of a candidate is that long, and servers with a smaller jute.maxbuffer are not supported.
const longestRequest = 0xfffff

// notSent is the error of a request that the library refuses.
func notSent(err error) error {
	if errors.Is(err, zk.ErrShortBuffer) {
		return fmt.Errorf("%w: the request is longer than the %d bytes that a server takes by default: %w",
			driver.ErrRefused, longestRequest, err)
	}
	return fmt.Errorf("%w: the request cannot be sent: %w", driver.ErrRefused, err)
}

// ended is the error of a call whose context has ended. why is what it was waiting for, or nil.
func ended(ctx context.Context, why error) error {
	err := driver.ContextError(ctx)
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

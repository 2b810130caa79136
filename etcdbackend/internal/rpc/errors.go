package rpc

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/session/driver"
)

// ErrFull is what NOSPACE means to the reader of a log.
var ErrFull = errors.New(`etcd raised the alarm NOSPACE, its quota is used up: entries can be deleted but not made ` +
	`until an operator compacts, defragments and disarms it (etcdctl alarm disarm)`)

// ErrClientClosed means that the program closed the client under a living session.
var ErrClientClosed = fmt.Errorf("%w: the etcd client is closed", driver.ErrClosed)

// Outcome is what an error says of the request that it answers.
type Outcome uint8

// The outcomes.
const (
	Unknown     Outcome = iota // it may have been done, be done now, or be done later
	NotDone                    // it was not and will not be done; sending it again may help
	BadToken                   // not done: the login has to be renewed, which the client does by itself
	SessionOver                // not done: the lease is no more
	Denied                     // not done, and waiting does not help
	Refused                    // not done, and only an operator can help
	Full                       // the quota is used up; it may have been done all the same, but will not be later
)

// Classify reads an error of a request that writes. Of a request that only reads, or may
// be done twice, Unknown means to send it again. An error that this package does not know
// proves nothing.
//
// Two errors mean something else than their names. The server answers NOSPACE before it
// proposes a request, and *after it has carried one out* that passed the quota
// (quotaApplierV3.Txn). And it answers "no leader" to requests that require one before
// it handles them at all, but "leader changed" while it does.
func Classify(err error) Outcome {
	e, own := errors.AsType[rpctypes.EtcdError](rpctypes.Error(err))
	code := status.Code(err)
	switch {
	case Late(err):
		return Unknown
	case errors.Is(err, clientv3.ErrNoAvailableEndpoints):
		return NotDone
	case own:
		code = e.Code()
	}
	switch e {
	case rpctypes.ErrLeaseNotFound:
		return SessionOver
	case rpctypes.ErrNoSpace:
		return Full
	case rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision:
		return BadToken
	case rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrRoleNotFound,
		rpctypes.ErrRoleNotGranted, rpctypes.ErrPermissionNotGranted, rpctypes.ErrInvalidAuthMgmt:
		return Denied
	case rpctypes.ErrTooManyRequests, rpctypes.ErrNoLeader, rpctypes.ErrNotLeader, rpctypes.ErrCompacted,
		rpctypes.ErrFutureRev, rpctypes.ErrMemberNotLearner, rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner):
		return NotDone
	}
	switch code {
	case codes.Unauthenticated, codes.PermissionDenied:
		return Denied
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return Refused
	case codes.DataLoss:
		if own {
			return Refused // a corrupt member
		}
	default:
		// Unavailable: timeouts, a leader that failed, a server that stopped. And
		// ResourceExhausted: gRPC returns it for an answer that is too long, and then the
		// request was done.
	}
	return Unknown
}

// Late reports whether an error says no more than that an attempt took too long.
func Late(err error) bool {
	code := status.Code(err)
	return code == codes.Canceled || code == codes.DeadlineExceeded ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Translate puts the contract's word for an outcome around etcd's error.
func Translate(err error) error {
	word := driver.ErrUnavailable
	switch Classify(err) {
	case Denied, BadToken:
		word = driver.ErrDenied
	case Refused:
		word = driver.ErrRefused
	case Full:
		word = fmt.Errorf("%w: %w", driver.ErrRefused, ErrFull)
	case SessionOver:
		word = driver.ErrSessionOver
	case Unknown, NotDone:
	}
	return fmt.Errorf("%w: %w", word, err)
}

// Explain is Translate, with the permission that a user needs where one is missing.
func (c *Client) Explain(err error) error {
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return fmt.Errorf("%w: %s is needed", Translate(err), c.Hint)
	}
	return Translate(err)
}

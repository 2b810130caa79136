package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/session/driver"
)

// ErrFull explains NOSPACE to the reader of a log.
var ErrFull = errors.New(`etcd raised the alarm NOSPACE, its quota is used up: entries can be deleted but not made ` +
	`until an operator compacts, defragments and disarms it (etcdctl alarm disarm)`)

// ErrClientClosed is the error of a session whose client the program has closed.
var ErrClientClosed = fmt.Errorf("%w: the etcd client is closed", driver.ErrClosed)

// Outcome is what an error proves about the request that it answers. What is done about each:
// see Attempt.Again, and for transactions of which only some parts matter, cluster.perform.
type Outcome uint8

// The outcomes.
const (
	Unknown     Outcome = iota // it may have been done, or may be done later
	NotDone                    // not done, now or later; sending it again may help
	BadToken                   // not done: the login has expired, and the client renews it
	SessionOver                // not done: the lease is gone
	Denied                     // not done: credentials are wrong, or a permission is missing
	Refused                    // not done, and sending it again does not help
	Full                       // the quota is used up; it may have been done, but will not be later
)

// Classify returns what an error proves about a request that writes. A request that only
// reads, or that may be done twice, is sent again if that is Unknown. An error that this
// package does not know proves nothing.
//
// The order of the cases matters: an attempt that was given up can have any code, so Late is
// first. Then etcd's own errors decide by what they are, since their codes are shared: both
// "no leader" and "timed out" are Unavailable. The code decides about the rest, and about the
// errors of etcd that are not listed.
//
// Two errors mean something else than their names. The server answers NOSPACE before it
// proposes a request, and also *after it has carried out* a request that exceeded the
// quota (quotaApplierV3.Txn). It answers "no leader" before it handles a request that
// requires a leader, but "leader changed" while it handles it.
func Classify(err error) Outcome {
	e, own := errors.AsType[rpctypes.EtcdError](rpctypes.Error(err))
	code := status.Code(err)
	switch {
	case Late(err):
		return Unknown
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
	case rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound:
		return Denied
	case rpctypes.ErrTooManyRequests, rpctypes.ErrNoLeader, rpctypes.ErrNotLeader, rpctypes.ErrFutureRev,
		rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner),
		rpctypes.ErrNotCapable: // a member that has just started does not know the cluster's version yet
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
	case codes.Unknown:
		// The server translates most errors of its store of users, and passes on the rest: that
		// a user has no password, for example.
		if strings.HasPrefix(rpctypes.ErrorDesc(err), "auth: ") {
			return Denied
		}
	default:
		// Unavailable: timeouts, a leader that failed, a server that stopped. And
		// ResourceExhausted: gRPC returns it for an answer that is too long, and then the
		// request was done.
	}
	return Unknown
}

// Late reports whether an error shows only that an attempt was cancelled or took too long.
func Late(err error) bool {
	code := status.Code(err)
	return code == codes.Canceled || code == codes.DeadlineExceeded ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Translate wraps etcd's error in the error of package driver for its outcome.
func Translate(err error) error {
	outer := driver.ErrUnavailable
	switch Classify(err) {
	case Denied, BadToken:
		outer = driver.ErrDenied
	case Refused:
		outer = driver.ErrRefused
	case Full:
		outer = fmt.Errorf("%w: %w", driver.ErrRefused, ErrFull)
	case SessionOver:
		outer = driver.ErrSessionOver
	case Unknown, NotDone:
	}
	return fmt.Errorf("%w: %w", outer, err)
}

// Explain is Translate, and names the permission that the user needs if one is missing.
func (c *Client) Explain(err error) error {
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return fmt.Errorf("%w: %s is needed", Translate(err), c.Hint)
	}
	return Translate(err)
}

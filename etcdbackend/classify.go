package etcdbackend

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// outcome is what an error says of the request that it answers.
type outcome int

const (
	// unknown: it may have been done, be done now, or be done later. It is the
	// zero value: an error that nobody thought of proves nothing.
	unknown outcome = iota
	// notDone: it was not and will not be done; asking again may help.
	notDone
	// badToken: not done, because the login has to be renewed. The client does
	// that by itself; asking again a few times helps or nothing will.
	badToken
	// sessionOver: not done, the lease is no more.
	sessionOver
	// denied: not done, and waiting does not help.
	denied
	// refused: not done, and only an operator can help.
	refused
	// full: refused because the quota is used up; but see classify.
	full
)

// classify reads an error of a request that writes. Of a request that only
// reads, or may be done twice, unknown means to ask again.
//
// Two entries go against their names. NOSPACE is told by the server before it
// proposes a request, and *after it has carried one out* that passed the quota
// (quotaApplierV3.Txn): so the request may be done, but will not be later. And
// "no leader" is told of requests that require one before they are handled at
// all, but "leader changed" while they are.
func classify(err error) outcome {
	switch err = rpctypes.Error(err); {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return unknown
	case errors.Is(err, clientv3.ErrNoAvailableEndpoints):
		return notDone
	}
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return classifyEtcd(e)
	}
	st, ok := status.FromError(err)
	if !ok {
		return unknown
	}
	switch st.Code() {
	case codes.Unauthenticated, codes.PermissionDenied:
		return denied
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return refused
	default:
		// ResourceExhausted too: gRPC says it of an answer that is too long,
		// and then the request was done.
		return unknown
	}
}

// classifyEtcd reads the errors that etcd itself sends.
func classifyEtcd(e rpctypes.EtcdError) outcome {
	switch e {
	case rpctypes.ErrLeaseNotFound:
		return sessionOver
	case rpctypes.ErrNoSpace:
		return full
	case rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision:
		return badToken
	case rpctypes.ErrAuthFailed, rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty,
		rpctypes.ErrUserNotFound, rpctypes.ErrRoleNotFound, rpctypes.ErrRoleNotGranted,
		rpctypes.ErrPermissionNotGranted, rpctypes.ErrInvalidAuthMgmt:
		return denied
	case rpctypes.ErrTooManyRequests, rpctypes.ErrNoLeader, rpctypes.ErrNotLeader,
		rpctypes.ErrCompacted, rpctypes.ErrFutureRev, rpctypes.ErrMemberNotLearner:
		return notDone
	}
	switch e.Code() {
	case codes.InvalidArgument, codes.OutOfRange, codes.DataLoss:
		return refused
	case codes.FailedPrecondition:
		if e.Error() == rpctypes.ErrorDesc(rpctypes.ErrGRPCNotSupportedForLearner) {
			return notDone // another endpoint will do it
		}
		return refused
	case codes.PermissionDenied, codes.Unauthenticated:
		return denied
	default:
		// Unavailable: timeouts, a leader that failed, a server that stopped.
		return unknown
	}
}

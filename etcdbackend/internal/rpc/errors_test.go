package rpc

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/session/driver"
)

func TestAnErrorShowsTheOutcome(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Outcome
	}{
		{context.Canceled, Unknown},
		{context.DeadlineExceeded, Unknown},
		{errors.New("anything else"), Unknown},
		{fmt.Errorf("wrapped: %w", rpctypes.ErrTimeout), Unknown},
		{rpctypes.ErrTimeout, Unknown},
		{rpctypes.ErrTimeoutDueToLeaderFail, Unknown},
		{rpctypes.ErrTimeoutDueToConnectionLost, Unknown},
		{rpctypes.ErrTimeoutWaitAppliedIndex, Unknown},
		{rpctypes.ErrLeaderChanged, Unknown},
		{rpctypes.ErrStopped, Unknown},
		{rpctypes.ErrUnhealthy, Unknown},
		{rpctypes.Error(rpctypes.ErrGRPCCanceled), Unknown},
		{rpctypes.ErrGRPCDeadlineExceeded, Unknown},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), Unknown},
		{status.Error(codes.Internal, "stream terminated by RST_STREAM"), Unknown},
		{status.Error(codes.Unknown, "panic"), Unknown},
		{status.Error(codes.Aborted, "?"), Unknown},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max"), Unknown},

		{rpctypes.ErrTooManyRequests, NotDone},
		{rpctypes.ErrNoLeader, NotDone},
		{rpctypes.ErrNotLeader, NotDone},
		{rpctypes.ErrFutureRev, NotDone},
		{rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner), NotDone},

		{rpctypes.ErrInvalidAuthToken, BadToken},
		{rpctypes.ErrAuthOldRevision, BadToken},

		{rpctypes.ErrLeaseNotFound, SessionOver},
		{rpctypes.ErrGRPCLeaseNotFound, SessionOver},

		{rpctypes.ErrAuthFailed, Denied},
		{rpctypes.ErrPermissionDenied, Denied},
		{rpctypes.ErrGRPCPermissionDenied, Denied},
		{rpctypes.ErrUserEmpty, Denied},
		{status.Error(codes.PermissionDenied, "a proxy"), Denied},
		{status.Error(codes.Unauthenticated, "a proxy"), Denied},

		{rpctypes.ErrCorrupt, Refused},
		{rpctypes.ErrRequestTooLarge, Refused},
		{rpctypes.ErrTooManyOps, Refused},
		{rpctypes.ErrNotCapable, Refused},
		{rpctypes.ErrCompacted, Refused},
		{rpctypes.ErrLeaseTTLTooLarge, Refused},
		{status.Error(codes.Unimplemented, "unknown service"), Refused},

		{rpctypes.ErrNoSpace, Full},
	} {
		assert.Equal(t, c.want, Classify(c.err), "%v", c.err)
	}
}

func TestErrorsAreTranslatedAndKept(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{rpctypes.ErrPermissionDenied, driver.ErrDenied},
		{rpctypes.ErrInvalidAuthToken, driver.ErrDenied},
		{rpctypes.ErrCorrupt, driver.ErrRefused},
		{rpctypes.ErrNoSpace, driver.ErrRefused},
		{rpctypes.ErrLeaseNotFound, driver.ErrSessionOver},
		{rpctypes.ErrTimeout, driver.ErrUnavailable},
	} {
		err := Translate(c.err)
		assert.ErrorIs(t, err, c.want)
		assert.ErrorIs(t, err, c.err)
	}
	assert.ErrorContains(t, Translate(rpctypes.ErrNoSpace), "NOSPACE")
}

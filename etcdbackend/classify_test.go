package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/session/driver"
)

func TestErrorsTellTheirOutcome(t *testing.T) {
	for _, c := range []struct {
		err  error
		want outcome
	}{
		{context.Canceled, unknown},
		{context.DeadlineExceeded, unknown},
		{errors.New("anything else"), unknown},
		{fmt.Errorf("wrapped: %w", rpctypes.ErrTimeout), unknown},
		{rpctypes.ErrTimeout, unknown},
		{rpctypes.ErrTimeoutDueToLeaderFail, unknown},
		{rpctypes.ErrTimeoutDueToConnectionLost, unknown},
		{rpctypes.ErrTimeoutWaitAppliedIndex, unknown},
		{rpctypes.ErrLeaderChanged, unknown},
		{rpctypes.ErrStopped, unknown},
		{rpctypes.ErrUnhealthy, unknown},
		{rpctypes.Error(rpctypes.ErrGRPCCanceled), unknown},
		{rpctypes.ErrGRPCDeadlineExceeded, unknown},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), unknown},
		{status.Error(codes.Internal, "stream terminated by RST_STREAM"), unknown},
		{status.Error(codes.Unknown, "panic"), unknown},
		{status.Error(codes.Aborted, "?"), unknown},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max"), unknown},

		{rpctypes.ErrTooManyRequests, notDone},
		{rpctypes.ErrNoLeader, notDone},
		{rpctypes.ErrNotLeader, notDone},
		{rpctypes.ErrCompacted, notDone},
		{rpctypes.ErrFutureRev, notDone},
		{rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner), notDone},
		{clientv3.ErrNoAvailableEndpoints, notDone},

		{rpctypes.ErrInvalidAuthToken, badToken},
		{rpctypes.ErrAuthOldRevision, badToken},

		{rpctypes.ErrLeaseNotFound, sessionOver},
		{rpctypes.ErrGRPCLeaseNotFound, sessionOver},

		{rpctypes.ErrAuthFailed, denied},
		{rpctypes.ErrPermissionDenied, denied},
		{rpctypes.ErrGRPCPermissionDenied, denied},
		{rpctypes.ErrUserEmpty, denied},
		{status.Error(codes.PermissionDenied, "a proxy"), denied},
		{status.Error(codes.Unauthenticated, "a proxy"), denied},

		{rpctypes.ErrCorrupt, refused},
		{rpctypes.ErrRequestTooLarge, refused},
		{rpctypes.ErrTooManyOps, refused},
		{rpctypes.ErrNotCapable, refused},
		{rpctypes.ErrLeaseTTLTooLarge, refused},
		{status.Error(codes.Unimplemented, "unknown service"), refused},

		{rpctypes.ErrNoSpace, full},
	} {
		assert.Equal(t, c.want, classify(c.err), "%v", c.err)
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
		err := translate(c.err)
		assert.ErrorIs(t, err, c.want)
		assert.ErrorIs(t, err, c.err)
	}
	assert.ErrorContains(t, translate(rpctypes.ErrNoSpace), "NOSPACE")
}

package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver"
)

// unnamed is how the library tells a code that it has no name for.
func unnamed(code int) error { return fmt.Errorf("unknown error: %d", code) }

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want outcome
	}{
		{nil, done},
		{zk.ErrNoNode, refused},
		{zk.ErrNodeExists, refused},
		{zk.ErrBadVersion, refused},
		{zk.ErrNotEmpty, refused},
		{zk.ErrNoAuth, refused},
		{zk.ErrInvalidACL, refused},
		{zk.ErrSessionExpired, expired},
		{zk.ErrSessionMoved, lost},
		{zk.ErrConnectionClosed, lost},
		{zk.ErrClosing, lost},
		{zk.ErrNoServer, lost},
		{errors.New("write: broken pipe"), lost},
		{context.Canceled, lost},
		{errOddAnswer, lost},
		{unnamed(-6), refused},   // unimplemented
		{unnamed(-125), refused}, // quota
		{unnamed(-127), refused}, // throttled
		{unnamed(-7), lost},
		{unnamed(-4), lost},
		{fmt.Errorf("wrapped: %w", zk.ErrNoNode), refused},
	} {
		assert.Equal(t, c.want, outcomeOf(c.err), "%v", c.err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		is   error
		says string
	}{
		{zk.ErrNoAuth, driver.ErrDenied, "permission WRITE on /locks"},
		{zk.ErrInvalidACL, driver.ErrRefused, "Options.ACL"},
		{zk.ErrNoChildrenForEphemerals, driver.ErrRefused, "/locks is an ephemeral node"},
		{unnamed(-6), driver.ErrRefused, "older than ZooKeeper 3.5.3"},
		{unnamed(-125), driver.ErrRefused, "quota on /locks"},
		{unnamed(-127), driver.ErrUnavailable, ""},
		{zk.ErrSessionExpired, driver.ErrSessionOver, ""},
		{zk.ErrConnectionClosed, driver.ErrUnavailable, ""},
		{context.DeadlineExceeded, driver.ErrUnavailable, ""},
		{driver.ErrSessionOver, driver.ErrSessionOver, ""},
	} {
		got := translate(c.err, "WRITE", "/locks")
		assert.ErrorIs(t, got, c.is)
		assert.ErrorIs(t, got, c.err)
		assert.ErrorContains(t, got, c.says)
	}
}

func TestTheFailedStepIsNamed(t *testing.T) {
	assert.Equal(t, 1, failedStep([]zk.MultiResponse{{}, {Error: zk.ErrNoAuth}, {Error: unnamed(-2)}}))
	assert.Equal(t, 0, failedStep([]zk.MultiResponse{{Error: zk.ErrNoNode}, {Error: unnamed(-2)}}))
	assert.Equal(t, 0, failedStep(nil))
}

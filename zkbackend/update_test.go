package zkbackend

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// A value that is written without a version could undo a newer one, and a detail of which the
// session does not know would outlive its entry.
func TestAFailedReadIsNotTakenForAMissingNode(t *testing.T) {
	scripted(t, &server{}, func(t *testing.T, c *zkSession) {
		const name = "0123456789abcdefv-lock-0000000001"
		n, _ := parseName(name)
		require.NoError(t, c.own.expect(ownKey{"q", n.guid}, n, &driver.JoinRequest{Detail: []byte("detail")}))
		u := newUpdate(c, driver.UpdateRequest{
			Queue: "q", Entry: driver.Ref{Queue: "q", Key: "/r/q/" + name, Place: n.place()},
			Data: []byte("value"), Detail: []byte("new"),
		})
		require.NoError(t, u.check())
		u.own.version = 3
		ctx, stop := context.WithCancel(t.Context())
		stop()

		for _, role := range []role{toChange, toDetail} {
			require.ErrorIs(t, u.refused(ctx, step{role: role}, zk.ErrBadVersion), driver.ErrUnavailable)
		}
		assert.EqualValues(t, 3, u.own.version)
		assert.EqualValues(t, 1, u.own.detail)
	})
}

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

// TestAnUpdateWithoutAnAnswerIsNotReportedAsRefused: that would mean that nothing was done. The
// session has sent the update as often as it may send a large one.
func TestAnUpdateWithoutAnAnswerIsNotReportedAsRefused(t *testing.T) {
	s := &server{answer: func(r request) []byte {
		if len(r) > 64<<10 {
			return hangUp
		}
		return joined(r)
	}}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		all, err := c.Join(t.Context(), driver.JoinRequest{Queue: "q", Valued: true})
		require.NoError(t, err)
		_, err = c.Update(t.Context(), driver.UpdateRequest{Queue: "q", Entry: all[0].Entry.Ref, Data: make([]byte, 100<<10)})
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.NotErrorIs(t, err, driver.ErrRefused)
		require.ErrorContains(t, err, "jute.maxbuffer")
	})
}

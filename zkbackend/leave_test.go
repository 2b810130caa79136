package zkbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// TestAnEntryOfAnotherRootIsNotDeleted, whatever the locks below this one are called.
func TestAnEntryOfAnotherRootIsNotDeleted(t *testing.T) {
	s := &server{answer: func(r request) []byte {
		if r.op() == opExists && r.path() != "/r/q"+neverThere { // the folder of the lock q/over
			return reply(r, noNode)
		}
		return reply(r, 0, make([]byte, 68))
	}}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		ref := driver.Ref{Queue: "q", Key: "/other/q/0123456789abcdef-lock-0000000007", Place: 8}
		left, err := c.Leave(t.Context(), driver.LeaveRequest{Ref: ref, Any: true})
		require.NoError(t, err)
		assert.Equal(t, []driver.Left{driver.WasGone}, left)
		for _, r := range s.asked {
			assert.False(t, r.deletes(), r.path())
		}
	})
}

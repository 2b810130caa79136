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

// TestEvictNeedsToHaveReadANameThatIsUsedAgain: a session that has not read the node cannot know that
// it is the one that the operator was shown.
func TestEvictNeedsToHaveReadANameThatIsUsedAgain(t *testing.T) {
	for entry, unique := range map[string]bool{
		"lock-0000000007": false,
		"5c7cd5ab00014be59d4f08ea00d0dd35__lock__0000000007":      false, // of Kazoo
		"_c_5c7cd5ab-0001-4be5-9d4f-08ea00d0dd35-lock-0000000007": true,
	} {
		s := &server{answer: func(r request) []byte {
			switch op := r.op(); {
			case r.deletes():
				return deleted(r)
			case op == opMulti:
				return refuse(r, 0, noAuth) // so no seal
			case r.path() == "/r/q":
				return reply(r, 0, 1, entry, make([]byte, 68))
			case r.path() != "/r/q/"+entry:
				return reply(r, noNode)
			case op == opExists:
				return reply(r, 0, make([]byte, 68))
			}
			return reply(r, 0, "", make([]byte, 68))
		}}
		scripted(t, s, func(t *testing.T, c *zkSession) {
			leave := func() ([]driver.Left, error) {
				ref := driver.Ref{Queue: "q", Key: "/r/q/" + entry, Place: 8}
				return c.Leave(t.Context(), driver.LeaveRequest{Ref: ref, Any: true})
			}
			if !unique {
				_, err := leave()
				require.ErrorIs(t, err, driver.ErrRefused, entry)
				assert.ErrorContains(t, err, "read the queue again", entry)
				assert.Zero(t, s.counted(request.deletes), entry)
				_, err = c.Read(t.Context(), driver.ReadRequest{Queue: "q", Detail: true})
				require.NoError(t, err, entry)
			}
			left, err := leave()
			require.NoError(t, err, entry)
			assert.Equal(t, []driver.Left{driver.Deleted}, left, entry)
		})
	}
}

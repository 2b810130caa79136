package zkbackend

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAFolderWhoseMakingWasNotAnsweredCanBeRemoved: the servers remove an empty container only if
// it has had a child. The session finds the folder that its first, unanswered attempt has made.
func TestAFolderWhoseMakingWasNotAnsweredCanBeRemoved(t *testing.T) {
	attempts := 0
	s := &server{answer: func(r request) []byte {
		switch {
		case r.op() == opMulti: // of a create and a delete
			return reply(r, 0, 1, byte(0), 0, r.path(), 2, byte(0), 0, -1, byte(1), -1)
		case r.op() != opContainer:
			return reply(r, 0)
		}
		if attempts++; attempts == 1 {
			return hangUp
		}
		return reply(r, nodeExists)
	}}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		fresh, err := c.folders.ensure(t.Context(), "/r/q")
		require.NoError(t, err)
		assert.False(t, fresh, "another client may have made it")
		synctest.Wait()

		assert.Equal(t, 2, attempts)
		last := s.asked[len(s.asked)-1]
		require.EqualValues(t, opMulti, last.op())
		assert.Contains(t, last.path(), "/r/q/", "a child was made")
	})
}

package zkbackend

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// statOf is a Stat with the length of the node's data.
func statOf(length uint32) []byte {
	stat := make([]byte, 68)
	binary.BigEndian.PutUint32(stat[52:], length)
	return stat
}

// TestAQueueIsReadBeforeItsFirstJoinOnly: one further request for each queue and session.
func TestAQueueIsReadBeforeItsFirstJoinOnly(t *testing.T) {
	s := &server{answer: joined}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		for _, queues := range [][]string{{"a"}, {"a"}, {"b", "a", "c"}, {"c", "b"}} {
			var reqs []driver.JoinRequest
			for _, q := range queues {
				reqs = append(reqs, driver.JoinRequest{Queue: q})
			}
			_, err := c.Join(t.Context(), reqs...)
			require.NoError(t, err)
		}

		var read []string
		for _, r := range s.asked {
			if r.op() == opExists {
				read = append(read, r.path())
			}
		}
		assert.Equal(t, []string{"/r/a", "/r/b", "/r/c"}, read)
		assert.Equal(t, 4, s.counted(request.writes))
	})
}

// TestANodeWithDataIsNotJoined, whatever kind of join it is, and nothing is written. A folder that is
// free in one of several queues does not help.
func TestANodeWithDataIsNotJoined(t *testing.T) {
	s := &server{answer: func(r request) []byte {
		length := uint32(0)
		if r.path() == "/r/app" {
			length = 8
		}
		switch r.op() {
		case opExists:
			return reply(r, 0, statOf(length))
		case opMulti:
			return refuse(r, 0, noAuth)
		}
		return reply(r, 0, 0, statOf(length)) // no children
	}}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		for name, reqs := range map[string][]driver.JoinRequest{
			"wait": {{Queue: "app"}}, "try": {{Queue: "app", IfEmpty: true}}, "several": {{Queue: "free"}, {Queue: "app"}},
			"try several": {{Queue: "free", IfEmpty: true}, {Queue: "app", IfEmpty: true}},
		} {
			for range 2 {
				_, err := c.Join(t.Context(), reqs...)
				require.ErrorIs(t, err, driver.ErrRefused, name)
				require.ErrorContains(t, err, "the node /r/app has 8 bytes of data of another program", name)
				require.ErrorContains(t, err, "choose another name or root", name)
			}
		}
		assert.Zero(t, s.counted(request.writes))
	})
}

// TestAFolderThatAnotherClientMakesMeanwhileIsRead: it may be a node with data.
func TestAFolderThatAnotherClientMakesMeanwhileIsRead(t *testing.T) {
	there := false
	s := &server{answer: func(r request) []byte {
		switch {
		case r.op() == opContainer:
			there = true
			return reply(r, nodeExists)
		case r.op() == opExists && there:
			return reply(r, 0, statOf(8))
		}
		return reply(r, noNode)
	}}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		_, err := c.Join(t.Context(), driver.JoinRequest{Queue: "app"})
		require.ErrorContains(t, err, "8 bytes of data of another program")
		assert.Zero(t, s.counted(func(r request) bool { return r.op() == opMulti }))
	})
}

// TestAQueueWhoseEntriesCannotBeDeletedIsNotJoined: the session would wait behind itself.
func TestAQueueWhoseEntriesCannotBeDeletedIsNotJoined(t *testing.T) {
	s := &server{answer: func(r request) []byte {
		if r.op() == opMulti {
			return refuse(r, 3, noAuth)
		}
		return reply(r, 0, statOf(0))
	}}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		_, err := c.Join(t.Context(), driver.JoinRequest{Queue: "q"})
		require.ErrorIs(t, err, driver.ErrDenied)
		require.ErrorContains(t, err, "permission DELETE on /r/q is missing")
		assert.NotErrorAs(t, err, new(*driver.PendingError))
	})
}

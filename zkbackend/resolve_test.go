package zkbackend

import (
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// joinedNode matches the path of an entry in the request that makes it.
var joinedNode = regexp.MustCompile(`/r/a/([0-9a-f]{16})`)

// deletes reports whether the first step of a transaction deletes a node.
func (r request) deletes() bool { return r.op() == opMulti && r.number(12) == opDelete }

// deleted is the reply to a transaction that only deletes nodes.
func deleted(r request) []byte {
	var all []any
	for at := 12; r.number(at) == opDelete; at += 9 + 4 + int(r.number(at+9)) + 4 { // header, path, version
		all = append(all, opDelete, byte(0), 0)
	}
	return reply(r, 0, append(all, -1, byte(1), -1)...)
}

// TestAJoinThatIsCarriedOutBetweenTwoListingsLeavesNothing: a server with Netty goes on with what it
// has read from the old connection. The listing of one queue shows nothing then, and that of the
// other an entry.
func TestAJoinThatIsCarriedOutBetweenTwoListingsLeavesNothing(t *testing.T) {
	guid, late := "", true
	entries := map[string]string{}
	s := &server{}
	s.answer = func(r request) []byte {
		switch op := r.op(); {
		case r.deletes():
			folder, _ := split(r.path())
			delete(entries, folder)
			return deleted(r)
		case op == opMulti && guid == "":
			guid = joinedNode.FindStringSubmatch(string(r))[1]
			return hangUp
		case op == opMulti:
			return refuse(r, 0, noAuth)
		case op == opExists:
			return reply(r, 0, make([]byte, 68))
		}
		answer := reply(r, 0, 0, make([]byte, 68))
		if child := entries[r.path()]; child != "" {
			answer = reply(r, 0, 1, child, make([]byte, 68))
		}
		if late {
			late = false
			entries["/r/a"], entries["/r/b"] = guid+"-lock-0000000007", guid+"-lock-0000000009"
		}
		return answer
	}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		_, err := c.Join(t.Context(), driver.JoinRequest{Queue: "a"}, driver.JoinRequest{Queue: "b"})
		require.ErrorIs(t, err, driver.ErrDenied)
		require.NotErrorAs(t, err, new(*driver.PendingError))
		assert.False(t, late)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, entries)
	})
}

// TestAnEntryThatIsEvictedBeforeItsJoinIsKnownLeavesNoDetail, which would stay until the session ends.
func TestAnEntryThatIsEvictedBeforeItsJoinIsKnownLeavesNoDetail(t *testing.T) {
	var guid string
	var tried []string
	s := &server{}
	s.answer = func(r request) []byte {
		switch op := r.op(); {
		case r.deletes():
			if tried = append(tried, r.path()); len(tried) == 1 {
				return refuse(r, 0, noNode)
			}
			return deleted(r)
		case op == opMulti && guid == "":
			guid = joinedNode.FindStringSubmatch(string(r))[1]
			return hangUp
		case op == opMulti:
			return joined(r)
		case op == opExists && r.path() == "/r/a":
			return reply(r, 0, make([]byte, 68))
		case op == opExists:
			return reply(r, noNode)
		}
		return reply(r, 0, 1, guid+"-lock-0000000007", make([]byte, 68))
	}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		_, err := c.Join(t.Context(), driver.JoinRequest{Queue: "a", Detail: []byte("detail")})
		require.NoError(t, err)
		assert.Equal(t, []string{"/r/a/" + guid + "-lock-0000000007", "/r/%v2/a/details/" + guid}, tried)
	})
}

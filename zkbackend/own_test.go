package zkbackend

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// joined is the reply to a join of one queue, which has no other entry. The paths of nodes that the
// join makes too follow.
func joined(r request, more ...string) []byte {
	stat := make([]byte, 68)
	binary.BigEndian.PutUint32(stat[56:], 1) // children
	fields := []any{1, byte(0), 0, r.path() + "0000000007", 5, byte(0), 0, stat}
	for _, path := range more {
		fields = append(fields, 1, byte(0), 0, path)
	}
	return reply(r, 0, append(fields, -1, byte(1), -1)...)
}

// TestASessionJoinsNoMoreThanServersCanEnd: the transaction that ends it would be too long.
func TestASessionJoinsNoMoreThanServersCanEnd(t *testing.T) {
	s := &server{answer: func(r request) []byte {
		switch {
		case r.deletes():
			return deleted(r)
		case r.op() == opMulti:
			return joined(r)
		}
		return reply(r, 0)
	}}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		name := strings.Repeat("%", 512)
		join := func(queues ...string) (driver.Joined, error) {
			var reqs []driver.JoinRequest
			for _, q := range queues {
				reqs = append(reqs, driver.JoinRequest{Queue: q})
			}
			all, err := c.Join(t.Context(), reqs...)
			if err != nil {
				return driver.Joined{}, err
			}
			return all[0], nil
		}
		var all []driver.Joined
		j, err := join(name)
		for ; err == nil && len(all) < 1000; j, err = join(name) {
			all = append(all, j)
		}
		require.ErrorIs(t, err, driver.ErrRefused)
		require.ErrorContains(t, err, "more than the 2000000 ")
		assert.NotErrorAs(t, err, new(*driver.PendingError))
		node, detail := len("/r/")+3*512+len("/0123456789abcdef-lock-0000000007"), len("/r/%v2/")+3*512+len("/details/0123456789abcdef")
		assert.Len(t, all, maxClosing/(4+node+4+detail))
		sent := len(s.asked)

		_, err = join("x", name)
		require.ErrorIs(t, err, driver.ErrRefused)
		assert.Len(t, s.asked, sent, "nothing was sent")
		_, err = join("x")
		require.NoError(t, err, "there is room for a short name, also after joins that were refused")
		_, err = c.Leave(t.Context(), driver.LeaveRequest{Ref: all[0].Entry.Ref})
		require.NoError(t, err)
		_, err = join(name)
		require.NoError(t, err)
		_, err = join(name)
		require.ErrorIs(t, err, driver.ErrRefused)
	})
}

// TestWhatMayNotBeDeletedIsCounted: those nodes stay until the session ends.
func TestWhatMayNotBeDeletedIsCounted(t *testing.T) {
	s := &server{}
	s.answer = func(r request) []byte {
		switch {
		case r.op() != opMulti:
			return reply(r, 0)
		case bytes.Contains(r, []byte("-lock-0000000007")): // a release
			if bytes.Contains(r, []byte("/details/")) {
				return refuse(r, 1, noAuth)
			}
			return deleted(r)
		}
		return joined(r, "/detail")
	}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		all, err := c.Join(t.Context(), driver.JoinRequest{Queue: "q", Detail: []byte("detail")})
		require.NoError(t, err)
		_, err = c.Leave(t.Context(), driver.LeaveRequest{Ref: all[0].Entry.Ref})
		require.NoError(t, err)
		assert.Equal(t, 4+len("/r/%v2/q/details/0123456789abcdef"), c.own.closing)
	})
}

package zkbackend

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// joined is the reply to a join of one queue, which has no other entry, and to the read of its folder
// before that.
func joined(r request) []byte {
	stat := make([]byte, 68)
	if r.op() == opExists {
		return reply(r, 0, stat)
	}
	binary.BigEndian.PutUint32(stat[56:], 1) // children
	var fields []any
	text := func(at int) string { return string(r[at+4:][:r.number(at)]) }
	for at := 12; r[at+4] == 0; { // of each step a header, a path, and the fields of its kind
		op, path := int(r.number(at)), text(at+9)
		at += 9 + 4 + len(path)
		fields = append(fields, op, byte(0), 0)
		switch op {
		case 1: // create: data, permissions, flags
			at += 4 + len(text(at))
			n := r.number(at)
			for at += 4; n > 0; n-- {
				at += 4
				at += 4 + len(text(at))
				at += 4 + len(text(at))
			}
			if r.number(at)&zk.FlagSequence != 0 {
				path += "0000000007"
			}
			fields = append(fields, path)
		case 5: // write: data
			at += 4 + len(text(at))
			fields = append(fields, stat)
		}
		at += 4 // flags or version
	}
	return reply(r, 0, append(fields, -1, byte(1), -1)...)
}

// TestASessionJoinsNoMoreThanServersCanEnd: the transaction that ends it would be too long.
func TestASessionJoinsNoMoreThanServersCanEnd(t *testing.T) {
	s := &server{answer: func(r request) []byte {
		if r.deletes() {
			return deleted(r)
		}
		return joined(r)
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
		require.ErrorContains(t, err, "use more sessions")
		assert.NotErrorAs(t, err, new(*driver.PendingError))
		assert.Len(t, all, 435)
		sent := s.counted(request.writes)

		_, err = join("x", name)
		require.ErrorIs(t, err, driver.ErrRefused)
		assert.Equal(t, sent, s.counted(request.writes), "no join was sent")
		_, err = join("x")
		require.NoError(t, err, "there is room for a short name, also after joins that were refused")
		for _, j := range all[:2] {
			_, err = c.Leave(t.Context(), driver.LeaveRequest{Ref: j.Entry.Ref})
			require.NoError(t, err)
		}
		_, err = join(name)
		require.NoError(t, err)
		_, err = join(name)
		require.ErrorIs(t, err, driver.ErrRefused)
	})
}

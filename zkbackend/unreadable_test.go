package zkbackend

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

const unreadable = "_c_5c7cd5ab-0001-4be5-9d4f-08ea00d0dd35-lock-0000000007"

// hides returns a server of 3.8.4 or newer: the lock "q" has one entry, and the session has READ on
// the folder only.
func hides(entry string) *server {
	return &server{answer: func(r request) []byte {
		switch op := r.op(); {
		case r.deletes():
			return deleted(r)
		case op == opMulti:
			return refuse(r, 0, noAuth) // so no seal
		case op == opGet, op == opExists:
			if r.path() == "/r/q/"+entry {
				return reply(r, noAuth)
			}
			return reply(r, noNode)
		case r.path() == "/r/q":
			return reply(r, 0, 1, entry, make([]byte, 68))
		}
		return reply(r, noNode)
	}}
}

func (s *server) counted(want func(r request) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.asked {
		if want(r) {
			n++
		}
	}
	return n
}

func all(request) bool { return true }

func (r request) writes() bool { return r.op() == opMulti || r.op() == opContainer }

func TestAQueueWithAnUnreadableEntryIsRead(t *testing.T) {
	s := hides(unreadable)
	scripted(t, s, func(t *testing.T, c *zkSession) {
		v, err := c.Read(t.Context(), driver.ReadRequest{Queue: "q", Marks: true, Detail: true})

		require.NoError(t, err)
		ref := driver.Ref{Queue: "q", Key: "/r/q/" + unreadable, Place: 8}
		assert.Equal(t, []driver.Entry{{Ref: ref, Foreign: true, Unreadable: true}}, v.Entries)
	})
}

// TestWhetherAnUnreadableEntryHasASessionIsAskedOnce: a waiter behind it reads the queue again and again.
func TestWhetherAnUnreadableEntryHasASessionIsAskedOnce(t *testing.T) {
	s := hides(unreadable)
	scripted(t, s, func(t *testing.T, c *zkSession) {
		for range 3 {
			v, err := c.Read(t.Context(), driver.ReadRequest{Queue: "q"})
			require.NoError(t, err)
			require.Len(t, v.Entries, 1)
			assert.False(t, v.Entries[0].Unleased)
		}
		assert.Equal(t, 1, s.counted(func(r request) bool { return r.op() == opExists }))
	})
}

// TestAnUnreadableEntryIsEvicted: that needs DELETE on the folder only, if no other node can get the name.
func TestAnUnreadableEntryIsEvicted(t *testing.T) {
	for entry, unique := range map[string]bool{
		unreadable:                         true,
		"0123456789abcdef-lock-0000000007": true,
		"_c_5c7cd5ab00014be59d4f08ea00d0dd35-lock-0000000007": true,
		"lock-0000000007":     false,
		"_c_-lock-0000000007": false,
		"5c7cd5ab00014be59d4f08ea00d0dd35__lock__0000000007":  false, // Kazoo's Lock uses it for all its entries
		"_c_5c7cd5ab-0001-4be5-9d4f-08ea00d-lock-0000000007":  false,
		"_c_worker-of-the-third-floor-no-012-lock-0000000007": false,
	} {
		s := hides(entry)
		scripted(t, s, func(t *testing.T, c *zkSession) {
			left, err := c.Leave(t.Context(), driver.LeaveRequest{Ref: driver.Ref{Queue: "q", Key: "/r/q/" + entry, Place: 8}, Any: true})
			if unique {
				require.NoError(t, err, entry)
				assert.Equal(t, []driver.Left{driver.Deleted}, left, entry)
				return
			}
			require.ErrorIs(t, err, driver.ErrDenied, entry)
			assert.ErrorContains(t, err, "permission READ on /r/q/"+entry)
			assert.Zero(t, s.counted(request.deletes), entry)
		})
	}
}

// TestALeaderThatIsUnreadableIsNoVacancy, and is not asked for again and again.
func TestALeaderThatIsUnreadableIsNoVacancy(t *testing.T) {
	s := hides(strings.Replace(unreadable, "lock", "latch", 1))
	synctest.Test(t, func(t *testing.T) {
		c, err := Open(t.Context(), []string{"server"}, &Options{Root: "/r", Dial: s.dial, Session: session.Options{TTL: 8 * time.Second}})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		e := election.New(c, "q")
		l, err := e.Leader(t.Context())
		require.NoError(t, err)
		assert.False(t, l.Vacant())
		before := s.counted(all)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		n := 0
		for l, err := range e.Observe(ctx) {
			require.NoError(t, err)
			assert.False(t, l.Vacant())
			n++
		}
		assert.Equal(t, 1, n)
		assert.Less(t, s.counted(all)-before, 200)
	})
}

// TestASessionOfServer255IsOne: its number begins with the byte 0xff.
func TestASessionOfServer255IsOne(t *testing.T) {
	const own = "0123456789abcdefx-lock-0000000008"
	stat := make([]byte, 68)
	binary.BigEndian.PutUint64(stat[44:], 0xff000000000000ff)
	s := &server{answer: func(r request) []byte {
		switch r.op() {
		case opGet:
			return reply(r, 0, "", stat)
		case opExists:
			return reply(r, 0, stat)
		}
		if r.path() == "/r/q" {
			return reply(r, 0, 2, unreadable, own, make([]byte, 68))
		}
		return reply(r, noNode)
	}}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		for _, detail := range []bool{false, true} {
			v, err := c.Read(t.Context(), driver.ReadRequest{Queue: "q", Detail: detail})
			require.NoError(t, err)
			require.Len(t, v.Entries, 2)
			for _, e := range v.Entries {
				assert.False(t, e.Unleased, e.Key)
				if detail {
					assert.Equal(t, "0xff000000000000ff", e.Session)
				}
			}
		}
	})
}

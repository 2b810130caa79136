package zkbackend

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// A value that is written without a version could undo a newer one.
func TestAFailedReadIsNotTakenForAMissingNode(t *testing.T) {
	scripted(t, &server{}, func(t *testing.T, c *zkSession) {
		const name = "0123456789abcdefv-lock-0000000001"
		n, _ := parseName(name)
		require.NoError(t, c.own.expect(ownKey{"q", n.guid}, n, &driver.JoinRequest{}))
		u := newUpdate(c, driver.UpdateRequest{
			Queue: "q", Entry: driver.Ref{Queue: "q", Key: "/r/q/" + name, Place: n.place()},
			Data: []byte("value"),
		})
		require.NoError(t, u.check())
		u.own.version = 3
		ctx, stop := context.WithCancel(t.Context())
		stop()

		require.ErrorIs(t, u.refused(ctx, step{role: toChange}, zk.ErrBadVersion), driver.ErrUnavailable)
		assert.EqualValues(t, 3, u.own.version)
	})
}

// An error that is ErrDenied or ErrRefused means that nothing was done. After an attempt that was
// not answered that is not known, so a writer that became a reader must not be taken for a writer.
func TestARefusalAfterAnAttemptWithoutAnAnswerLeavesTheOutcomeUnknown(t *testing.T) {
	denied := func(r request) []byte { return refuse(r, 0, noAuth) }
	lost := func(request) []byte { return hangUp }
	for name, c := range map[string]struct {
		answers []func(request) []byte // to the attempts
		calls   int
		unknown bool
	}{
		"denied":                      {[]func(request) []byte{denied}, 1, false},
		"not answered, then denied":   {[]func(request) []byte{lost, denied}, 1, true},
		"denied in the next Update":   {[]func(request) []byte{lost, denied, denied}, 2, true},
		"denied twice, and each time": {[]func(request) []byte{denied, denied}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			made := false
			s := &server{answer: func(r request) []byte {
				if !made {
					made = r.op() == opMulti
					return joined(r)
				}
				answer := c.answers[0]
				c.answers = c.answers[1:]
				return answer(r)
			}}
			scripted(t, s, func(t *testing.T, z *zkSession) {
				all, err := z.Join(t.Context(), driver.JoinRequest{Queue: "q", Mode: driver.Exclusive, Valued: true})
				require.NoError(t, err)
				for range c.calls {
					_, err = z.Update(t.Context(), driver.UpdateRequest{Queue: "q", Entry: all[0].Entry.Ref, Data: []byte("v")})
					require.Error(t, err)
				}
				assert.Empty(t, c.answers)
				assert.Equal(t, c.unknown, !driver.Incurable(err), "%v", err)
			})
		})
	}
}

// detailUnknown makes an entry, and a detail for it in an Update that gets no answer.
func detailUnknown(t *testing.T, s *server, c *zkSession) driver.Ref {
	t.Helper()
	s.answer = func(r request) []byte { return joined(r) }
	all, err := c.Join(t.Context(), driver.JoinRequest{Queue: "q", Mode: driver.Exclusive, Family: driver.FamilyReadWrite})
	require.NoError(t, err)
	s.answer = func(request) []byte { return nil }
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	_, err = c.Update(ctx, driver.UpdateRequest{Queue: "q", Entry: all[0].Entry.Ref, Detail: []byte("v")})
	require.ErrorIs(t, err, driver.ErrUnavailable)
	time.Sleep(c.conn.TTL()) // there is a new connection by then
	synctest.Wait()
	return all[0].Entry.Ref
}

// TestADetailWithoutAnAnswerLeavesNoDoubtAboutTheEntry: that Update writes only the detail.
func TestADetailWithoutAnAnswerLeavesNoDoubtAboutTheEntry(t *testing.T) {
	s := &server{}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		ref := detailUnknown(t, s, c)
		s.answer = func(r request) []byte { return refuse(r, 0, noAuth) }
		_, err := c.Update(t.Context(), driver.UpdateRequest{Queue: "q", Entry: ref, Marks: driver.MarkShared})
		require.ErrorIs(t, err, driver.ErrDenied)
	})
}

// TestADetailThatMayExistIsDeletedWithItsEntry, also if the servers refuse to make it by now.
func TestADetailThatMayExistIsDeletedWithItsEntry(t *testing.T) {
	s := &server{}
	scripted(t, s, func(t *testing.T, c *zkSession) {
		ref := detailUnknown(t, s, c)
		leaving := false
		s.answer = func(r request) []byte {
			switch detail := bytes.Contains(r, []byte("/details/")); {
			case r.deletes():
				leaving = true
				assert.True(t, detail)
				return deleted(r)
			case detail:
				return refuse(r, 1, noAuth)
			}
			return reply(r, 0, 13, byte(0), 0, -1, byte(1), -1) // of a check
		}
		_, err := c.Update(t.Context(), driver.UpdateRequest{Queue: "q", Entry: ref, Detail: []byte("w")})
		require.NoError(t, err)
		_, err = c.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
		require.NoError(t, err)
		assert.True(t, leaving)
	})
}

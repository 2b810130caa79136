package etcdbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// A snapshot was restored under the session. Its lease can be in there, so nothing but the
// revision of an answer shows it. Places and tokens that come now are older than those that
// the session has handed out.
func TestAnAnswerThatIsOlderThanAnEarlierOneEndsTheSession(t *testing.T) {
	for name, call := range map[string]func(s *etcdSession, ref driver.Ref) error{
		"a join": func(s *etcdSession, _ driver.Ref) error {
			_, err := s.Join(t.Context(), driver.JoinRequest{Queue: "other"})
			return err
		},
		"a release": func(s *etcdSession, ref driver.Ref) error {
			_, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
			return err
		},
		"a release with a record": func(s *etcdSession, ref driver.Ref) error {
			_, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: ref, Ops: []driver.Op{{Record: "done", If: driver.Absent(), Value: []byte("n")}}})
			return err
		},
		"an update": func(s *etcdSession, ref driver.Ref) error {
			_, err := s.Update(t.Context(), driver.UpdateRequest{Queue: "x", Entry: ref, Marks: driver.MarkShared})
			return err
		},
		"a read": func(s *etcdSession, ref driver.Ref) error {
			_, err := s.Read(t.Context(), driver.ReadRequest{Queue: "x", Upto: ref.Place})
			return err
		},
		"a fresh read": func(s *etcdSession, _ driver.Ref) error {
			_, err := s.Read(t.Context(), driver.ReadRequest{Queue: "other", Fresh: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, store, gone := onStore(t)
			ref := s.put(t)
			store.rev -= 50

			err := call(s, ref)
			require.ErrorIs(t, err, driver.ErrSessionOver)
			assert.ErrorContains(t, err, "snapshot")
			assert.Len(t, *gone, 1)
		})
	}
}

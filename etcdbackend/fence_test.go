package etcdbackend

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// fences returns how many fences a store has.
func (s *kv) fences() (n int) {
	for key := range s.keys {
		if strings.HasPrefix(key, "r"+fenceFolder) {
			n++
		}
	}
	return n
}

// A fence is used again, so what is lost leaves no more fences than joins that were under way, or
// not yet settled, at the same time.
func TestLostJoinsLeaveNoMoreFencesThanJoinsAtTheSameTime(t *testing.T) {
	s, store, _ := onStore(t)
	for range 300 {
		store.faults = faults{lostRequest}
		_, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: s.put(t)})
		require.NoError(t, err)
	}
	assert.Equal(t, 1, store.fences(), "one after another")

	var settle []func(context.Context) error
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		store.faults = faults{func(func()) error { cancel(); return lost() }, lostRequest}
		_, err := s.Join(ctx, driver.JoinRequest{Queue: "x"})
		var pending *driver.PendingError
		require.ErrorAs(t, err, &pending)
		settle = append(settle, pending.Settle)
		if len(settle) == 3 {
			for _, f := range settle {
				require.NoError(t, f(t.Context()))
				require.NoError(t, f(t.Context()), "again")
			}
			settle = nil
		}
	}
	assert.Equal(t, 3, store.fences(), "three at the same time")
}

// late is a request that is carried out when it is called, long after the sender has given it up.
type late func()

// lateFault keeps a request for later.
func (l *late) fault(carry func()) error { *l = carry; return lost() }

// Whatever became of later joins with the same fence: an attempt that was settled is never carried
// out.
func TestALateAttemptPutsNothingWhenItsFenceIsUsedAgain(t *testing.T) {
	s, store, _ := onStore(t)
	var attempts [6]late
	for i := range attempts {
		store.faults = faults{attempts[i].fault}
		ref := s.put(t)
		attempts[i]()
		assert.NotNil(t, store.keys[ref.Key], "the join has succeeded with another attempt")
		_, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
		require.NoError(t, err)
		for _, l := range attempts[:i+1] {
			l()
			assert.Nil(t, store.keys[ref.Key])
		}
	}
	assert.Equal(t, 1, store.fences())
}

// A copy of the transaction that writes the fence changes nothing when it arrives late: it would
// not exclude what depends on the fence now.
func TestALateCopyOfTheFenceChangesNothing(t *testing.T) {
	for name, carried := range map[string]bool{"the copy before was carried out": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			s, store, _ := onStore(t)
			var attempt, first, second late
			store.faults = faults{attempt.fault, first.fault, second.fault}
			if carried {
				store.faults[1] = func(carry func()) error { first = carry; return lostReply(carry) }
			}
			ref := s.put(t)
			place := store.keys[ref.Key].CreateRevision
			for _, l := range []late{attempt, first, second} {
				l()
			}
			assert.Equal(t, place, store.keys[ref.Key].CreateRevision)
			_, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
			require.NoError(t, err)
			for _, l := range []late{attempt, first, second} {
				l()
			}
			assert.Nil(t, store.keys[ref.Key])
			s.put(t)
			assert.Equal(t, 1, store.fences())
		})
	}
}

// An operator or another program that changes a fence delays a join by a request.
func TestAFenceThatAnotherProgramHasChangedIsNotUsedAgain(t *testing.T) {
	s, store, _ := onStore(t)
	store.faults = faults{lostRequest}
	s.put(t)
	require.Equal(t, 1, store.fences())
	for key := range store.keys {
		if strings.HasPrefix(key, "r"+fenceFolder) {
			delete(store.keys, key)
		}
	}
	s.put(t)
	s.put(t)
	assert.Zero(t, store.fences())
}

package membackend_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

// late makes a call whose only request arrives with Deliver, when the caller has
// long gone.
func late(t *testing.T, c *membackend.Client, op fault.Op, call func(ctx context.Context) error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	c.Inject(op, fault.LateRequest)
	require.ErrorIs(t, call(ctx), driver.ErrUnavailable)
}

func TestOldChangesThatComeLateUndoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		j, err := s.Join(t.Context(), driver.JoinRequest{Line: "jobs", Value: []byte("old")})
		require.NoError(t, err)
		late(t, c, fault.Change, func(ctx context.Context) error { return s.Write(ctx, j.Entry.Ref, []byte("new")) })
		late(t, c, fault.Change, func(ctx context.Context) error { return s.SetLimit(ctx, "jobs", 2) })
		require.NoError(t, s.Write(t.Context(), j.Entry.Ref, []byte("newer")))
		require.NoError(t, s.SetLimit(t.Context(), "jobs", 3))
		c.Deliver()

		assert.Equal(t, "newer", string(memtest.Entries(st, "jobs")[0].Value))
		limit, err := c.Backend().Limit(t.Context(), "jobs")
		require.NoError(t, err)
		assert.EqualValues(t, 3, limit)
	})
}

// The call in between never got as far as the network; what the first one did is
// not forgotten for that.
func TestLeaveThatWasNotSentForgetsNoEarlierOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		req := driver.LeaveRequest{Ref: join(t, s, "jobs").Ref}
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		c.Inject(fault.Leave, fault.LostReply)
		_, err := s.Leave(ctx, req)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.Empty(t, memtest.Entries(st, "jobs"))
		_, err = s.Leave(ctx, req)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		_, err = s.Leave(t.Context(), req)
		require.NoError(t, err, "an earlier unanswered call did it")
		_, err = s.Leave(t.Context(), req)
		assert.ErrorIs(t, err, driver.ErrGone)
	})
}

func TestServiceWithoutNumbersTellsWhatWasChangedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, noRevs := range []bool{false, true} {
			_, _, s, _ := serve(t, memory.Options{NoRevs: noRevs})
			e := join(t, s, "jobs")
			fresh := record(t, s, driver.WatchRequest{Ref: e.Ref, Changes: true})
			assert.Equal(t, []driver.EventKind{driver.Armed}, fresh())
			require.NoError(t, s.Admit(t.Context(), e.Ref))

			later := record(t, s, driver.WatchRequest{Ref: e.Ref, Changes: true})
			want := []driver.EventKind{driver.Armed}
			if noRevs {
				want = append(want, driver.Changed)
			}
			assert.Equal(t, want, later(), "a look after Armed cannot be told from one before it: %v", noRevs)
		}
	})
}

func TestRequestsOutsideTheContractAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s, _ := serve(t, memory.Options{})
		for what, req := range map[string]driver.JoinRequest{
			"the same line": {Line: "jobs"},
			"a limit":       {Line: "gpu", Limit: 3},
			"follow":        {Line: "gpu", Follow: true},
			"a value":       {Line: "gpu", Value: []byte{}},
		} {
			_, err := s.JoinAll(t.Context(), []driver.JoinRequest{{Line: "jobs"}, req})
			require.ErrorIs(t, err, driver.ErrRefused, what)
			require.Empty(t, memtest.Entries(st, "jobs"), what)
		}
		large := make([]byte, 1<<20+1)
		_, err := s.Join(t.Context(), driver.JoinRequest{Line: "jobs", Value: large})
		require.ErrorIs(t, err, driver.ErrRefused)
		e := join(t, s, "jobs")
		require.ErrorIs(t, s.Write(t.Context(), e.Ref, nil), driver.ErrRefused, "it was made without a value")
		require.ErrorIs(t, s.Write(t.Context(), e.Ref, large), driver.ErrRefused)
		assert.ErrorIs(t, s.SetLimit(t.Context(), "jobs", 0), driver.ErrRefused)
	})
}

func TestAnswersAboutPlacesTellNoValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s, _ := serve(t, memory.Options{Near: true})
		_, err := s.Join(t.Context(), driver.JoinRequest{Line: "jobs", Value: []byte("v")})
		require.NoError(t, err)
		j, err := s.Join(t.Context(), driver.JoinRequest{Line: "jobs"})
		require.NoError(t, err)
		assert.Nil(t, j.Known[0].Value)
		v, err := s.Look(t.Context(), driver.LookRequest{Line: "jobs", Upto: j.Entry.Place})
		require.NoError(t, err)
		assert.Nil(t, v.Entries[0].Value)

		shown := memtest.Entries(st, "jobs")[0].Value
		shown[0] = 'x'
		assert.Equal(t, "v", string(memtest.Entries(st, "jobs")[0].Value), "who reads cannot write")
	})
}

func TestSharedEntryOfAnotherSessionIsNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, moves := range []bool{false, true} {
			st, _, s, _ := serve(t, memory.Options{Moves: moves})
			other, _ := open(t, st.NewClient())
			e := join(t, s, "jobs")
			after, err := s.Share(t.Context(), e.Ref)
			require.NoError(t, err)
			assert.Equal(t, moves, after.Ref != e.Ref)
			for _, ref := range []driver.Ref{e.Ref, after.Ref} {
				_, err = other.Share(t.Context(), ref)
				require.ErrorIs(t, err, driver.ErrGone)
				again, err := s.Share(t.Context(), ref)
				require.NoError(t, err)
				assert.Equal(t, after, again)
			}
			_, err = s.Leave(t.Context(), driver.LeaveRequest{Ref: e.Ref})
			assert.Equal(t, moves, err != nil, "the old key is gone where it moved")
		}
	})
}

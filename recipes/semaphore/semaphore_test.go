package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// TestATryThatOthersCameBeforeLeaves: the line is read, has room, and has none any
// more when the entry is made.
func TestATryThatOthersCameBeforeLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		h, err := semaphore.New(open(t, st.Backend()), "gpu", 3).Acquire(t.Context(), 1)
		require.NoError(t, err)
		c := st.NewClient()
		m := semaphore.New(open(t, c.Backend()), "gpu", 3)
		c.OnRequest(func(op membackend.Op) {
			if op == membackend.OpJoin && c.Requests(op) == 1 {
				st.PutForeign("gpu", "x", true)
			}
		})
		at := time.Now()
		_, err = m.TryAcquire(t.Context(), 1)

		var na *session.NotAcquiredError
		require.ErrorAs(t, err, &na)
		assert.Equal(t, 2, na.Ahead)
		assert.Zero(t, time.Since(at), "it has not waited")
		synctest.Wait()
		assert.Len(t, st.Entries("gpu"), 2, "its entry has left")
		assert.Equal(t, 2, c.Requests(membackend.OpJoin), "the race was run")
		st.Delete("gpu", "x")
		require.NoError(t, h.Unlock())
	})
}

func TestDoGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		m := semaphore.New(open(t, st.Backend()), "gpu", 3)
		assert.PanicsWithValue(t, "boom", func() {
			_ = m.Do(t.Context(), 2, func(context.Context, *session.Hold) error { panic("boom") })
		})
		assert.Empty(t, st.Entries("gpu"))
		err := m.Do(t.Context(), 2, func(ctx context.Context, h *session.Hold) error {
			time.Sleep(time.Second)
			st.Delete("gpu", h.Refs()[0].Key)
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, session.ErrLost, "a nil of fn does not hide a loss")
		require.NoError(t, m.Do(t.Context(), 3, func(context.Context, *session.Hold) error { return nil }))
	})
}

func TestWithoutASessionEveryCallSaysSo(t *testing.T) {
	m := semaphore.New(nil, "gpu", 3)
	_, err := m.Acquire(t.Context(), 1)
	require.ErrorIs(t, err, session.ErrClosed)
	_, err = m.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, session.ErrClosed)
	_, err = m.Limit(t.Context())
	require.ErrorIs(t, err, session.ErrClosed)
	_, err = m.Queue(t.Context())
	require.ErrorIs(t, err, session.ErrClosed)
	require.ErrorIs(t, m.Resize(t.Context(), 3), session.ErrClosed)
	require.ErrorIs(t, m.Do(t.Context(), 1, nil), session.ErrClosed)
}

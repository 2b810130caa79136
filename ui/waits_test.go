package ui_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/ui"
)

func TestDeadlocksAreMarked(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		a, b := f.worker("a"), f.worker("b")
		held := func(s *session.Session, name string) *session.Hold {
			h, err := mutex.New(s, name).Lock(f.t.Context())
			require.NoError(t, err)
			return h
		}
		x, y := held(a, "x"), held(b, "y")
		within := func(h *session.Hold, s *session.Session, name string) (end func()) {
			return waitFor(f, func(ctx context.Context) (*session.Hold, error) {
				inside, cancel := context.WithCancel(h.Context())
				context.AfterFunc(ctx, cancel)
				return mutex.New(s, name).Lock(inside)
			})
		}
		endA := within(x, a, "y")
		p := f.page()
		p.take()
		st := f.state()
		require.Empty(t, st.Waits.Deadlocks)

		endB := within(y, b, "x")
		defer waitFor(f, mutex.New(f.worker("c"), "y").Lock)()
		defer waitFor(f, mutex.New(f.worker("d"), "alone").Lock)()
		time.Sleep(2 * time.Second)
		p.take()

		st = f.state()
		require.Len(t, st.Waits.Links, 2)
		assert.Equal(t, "x", st.Waits.Links[0].In)
		assert.Equal(t, "y", st.Waits.Links[0].For)
		assert.Equal(t, "a", st.Waits.Links[0].Label)
		require.Len(t, st.Waits.Deadlocks, 1)
		assert.Len(t, st.Waits.Deadlocks[0].Steps, 2)
		assert.Equal(t, 1, st.Waits.Deadlocks[0].Behind)

		endB()
		endA()
		require.NoError(t, x.Unlock())
		require.NoError(t, y.Unlock())
		time.Sleep(2 * time.Second)
		p.take()
		assert.Empty(t, f.state().Waits.Deadlocks)
		p.close()
	})
}

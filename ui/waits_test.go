package ui_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/ui"
)

// within starts a request that waits, in the context of a hold, and returns what ends it.
func (f *fixture) within(h *session.Hold, s *session.Session, name string) (end func()) {
	return waitFor(f, func(ctx context.Context) (*session.Hold, error) {
		inside, cancel := context.WithCancel(h.Context())
		context.AfterFunc(ctx, cancel)
		return mutex.New(s, name).Lock(inside)
	})
}

func TestDeadlocksAreMarked(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		a, b := f.worker("a"), f.worker("b")
		held := func(s *session.Session, name string) *session.Hold {
			h, err := mutex.New(s, name).Lock(f.t.Context())
			require.NoError(t, err)
			return h
		}
		x, y := held(a, "x"), held(b, "y")
		endA := f.within(x, a, "y")
		p := f.page()
		p.take()
		st := f.state()
		require.Empty(t, st.Waits.Deadlocks)

		endB := f.within(y, b, "x")
		defer waitFor(f, mutex.New(f.worker("c"), "y").Lock)()
		defer waitFor(f, mutex.New(f.worker("d"), "alone").Lock)()
		time.Sleep(2 * time.Second)
		p.take()

		st = f.state()
		require.Len(t, st.Waits.Links, 2)
		y2, _ := st.lock("y")
		assert.Equal(t, y2.Entries[1].Token, st.Waits.Links[0].Waits)
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

// TestACycleOfDifferentMomentsIsNoDeadlock: b waits for a and gives up, and then a waits for b.
// With more locks than a tick reads, the page sees the second wait before it sees that the
// first one has ended.
func TestACycleOfDifferentMomentsIsNoDeadlock(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		for i := range 1000 {
			memtest.PutForeign(f.store, fmt.Sprintf("lock-%03d", i), "k", true)
		}
		a, b := f.worker("a"), f.worker("b")
		x, err := mutex.New(a, "lock-100x").Lock(f.t.Context())
		require.NoError(t, err)
		y, err := mutex.New(b, "zz").Lock(f.t.Context())
		require.NoError(t, err)
		endB := f.within(y, b, "lock-100x")
		p := f.page()
		p.take()
		st := f.state()
		_, read := st.lock("lock-100x")
		require.True(t, read)
		_, read = st.lock("zz")
		require.False(t, read)

		endB()
		endA := f.within(x, a, "zz")
		mixed := false
		for range 8 {
			time.Sleep(time.Second)
			for _, e := range p.take() {
				st.apply(t, e.data)
			}
			require.Empty(t, st.Waits.Deadlocks)
			mixed = mixed || len(st.Waits.Links) == 2
		}

		assert.True(t, mixed, "both waits were known at once")
		assert.Len(t, st.Waits.Links, 1)
		require.NoError(t, y.Unlock())
		endA()
		require.NoError(t, x.Unlock())
		p.close()
	})
}

// TestARequestForSeveralLocksIsALink: it holds one of them, and waits for the other.
func TestARequestForSeveralLocksIsALink(t *testing.T) {
	inBubble(t, ui.Options{}, func(f *fixture) {
		y, err := mutex.New(f.worker("b"), "y").Lock(f.t.Context())
		require.NoError(t, err)
		a := f.worker("a")
		end := waitFor(f, func(ctx context.Context) (*session.Hold, error) {
			return mutex.LockAll(ctx, mutex.New(a, "x"), mutex.New(a, "y"))
		})
		p := f.page()
		p.take()

		st := f.state()
		x, _ := st.lock("x")
		require.Len(t, st.Waits.Links, 1)
		l := st.Waits.Links[0]
		assert.Equal(t, "x", l.In)
		assert.Equal(t, "y", l.For)
		assert.Equal(t, x.Entries[0].Token, l.Owns)

		end()
		require.NoError(t, y.Unlock())
		p.close()
	})
}

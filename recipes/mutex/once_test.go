package mutex_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// Twice as many keys as a record kept once, and all of them again: none is forgotten.
func TestOnceForgetsNoRecentKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mutex.New(open(t, membackend.New(), nil), "jobs")
		ran := 0
		for range 2 {
			for i := range 202 {
				err := m.Once(t.Context(), fmt.Sprint("key ", i), func(context.Context, *session.Hold) error { ran++; return nil })
				require.NoError(t, err)
			}
		}
		assert.Equal(t, 202, ran)
	})
}

func TestOnceRunsNothingThatItCannotRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mutex.NewWith(open(t, membackend.New(), nil), "jobs", mutex.Options{OnceFor: 24 * time.Hour})
		long := func(i int) string { return strings.Repeat("\x01", 252) + fmt.Sprintf("%04d", i) } // six bytes each
		var err error
		last := -1
		for i := 0; err == nil; i++ {
			err = m.Once(t.Context(), long(i), func(context.Context, *session.Hold) error { last = i; return nil })
			require.Less(t, i, 500)
		}
		require.ErrorIs(t, err, session.ErrRefused)
		next := long(last + 1)
		require.ErrorContains(t, err, "no room for another key")

		unused := func(context.Context, *session.Hold) error { t.Error("it was called"); return nil }
		require.ErrorIs(t, m.Once(t.Context(), next, unused), session.ErrRefused)
		require.NoError(t, m.Once(t.Context(), long(0), unused), "what is done stays done")

		time.Sleep(25 * time.Hour)
		require.NoError(t, m.Once(t.Context(), next, func(context.Context, *session.Hold) error { return nil }))
	})
}

func TestANegativeOnceForIsAnError(t *testing.T) {
	m := mutex.NewWith(nil, "jobs", mutex.Options{OnceFor: -1})
	require.ErrorIs(t, m.Once(t.Context(), "a", nil), session.ErrInvalidOptions)
}

// Cut off between the work and its record, Once lasts a second longer than its ctx, and one more
// in Unlock; without the end of ctx, for as long as the hold.
func TestOnceEndsSoonAfterItsContext(t *testing.T) {
	for _, ends := range []time.Duration{0, time.Second} { // after the cut
		synctest.Test(t, func(t *testing.T) {
			c := membackend.New().NewClient()
			s, err := c.Open(t.Context(), nil)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cut := time.Now()
			err = mutex.New(s, "jobs").Once(ctx, "a", func(context.Context, *session.Hold) error {
				c.Cut(fault.Both)
				time.AfterFunc(ends, cancel)
				return nil
			})
			assert.Equal(t, ends+2*time.Second, time.Since(cut))
			require.ErrorContains(t, err, `"a" is done, but that could not be recorded`)
			c.Heal()
			require.NoError(t, s.Close())
		})
	}
}

package trial_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/session"
)

func TestNestedRequestSharesTheHoldWhileItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := membackend.New().Open(t.Context(), &session.Options{TTL: trial.TTL})
		require.NoError(t, err)
		defer s.Close()
		queue := history.Queue{Recipe: history.Reentrant, Name: "n"}
		outer, err := trial.AcquireOurs(t.Context(), s, queue, trial.Request{})
		require.NoError(t, err)

		inner, err := trial.AcquireOurs(t.Context(), s, queue, trial.Request{Within: outer})
		require.NoError(t, err)

		assert.Equal(t, outer.Token(), inner.Token())
		for _, h := range []trial.Hold{inner, outer} {
			assert.True(t, h.Held())
			outcome, err := h.Release(t.Context())
			require.NoError(t, err)
			assert.Equal(t, history.Released, outcome)
			assert.False(t, h.Held())
		}
		_, err = trial.AcquireOurs(t.Context(), s, queue, trial.Request{Within: outer})
		require.ErrorIs(t, err, context.Canceled, "the outer hold is released")
	})
}

func TestClosedSessionIsUseless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := membackend.New().Open(t.Context(), &session.Options{TTL: trial.TTL})
		require.NoError(t, err)
		require.NoError(t, s.Close())

		_, err = trial.AcquireOurs(t.Context(), s, history.Queue{Recipe: history.Mutex, Name: "n"}, trial.Request{})

		assert.ErrorIs(t, err, trial.ErrUseless)
	})
}

package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// TestARequestThatFindsTheSessionOverEndsTheHold: it may be the first to find out.
func TestARequestThatFindsTheSessionOverEndsTheHold(t *testing.T) {
	for name, request := range map[string]func(context.Context, *session.Hold) error{
		"downgrade": func(ctx context.Context, h *session.Hold) error { return core.Hold(h).Downgrade(ctx) },
		"write": func(ctx context.Context, h *session.Hold) error {
			return core.Hold(h).Write(ctx, []byte("v"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, _, h := play(t, &scripted{update: func(context.Context, driver.UpdateRequest) error { return driver.ErrSessionOver }})

				var lost *session.LostError
				require.ErrorAs(t, request(t.Context(), h), &lost)
				assert.Equal(t, session.ReasonExpired, lost.Reason)
				require.ErrorIs(t, context.Cause(h.Context()), session.ErrLost)
				require.ErrorIs(t, h.Unlock(), session.ErrLost)
			})
		})
	}
}

// TestARefusedDowngradeOfUnlockIsRepeated: the handle of the writer is unlocked, so no call of
// the program can repeat it.
func TestARefusedDowngradeOfUnlockIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		var shared atomic.Int64
		refuse.Store(true)
		_, s, h := play(t, &scripted{update: func(_ context.Context, r driver.UpdateRequest) error {
			switch {
			case !r.Marks.Has(driver.MarkShared):
			case refuse.Load():
				return driver.ErrRefused
			default:
				shared.Add(1)
			}
			return nil
		}})
		reader, err := core.Acquire(h.Context(), s, requestK(driver.Shared))
		require.NoError(t, err)

		err = h.Unlock()
		require.ErrorIs(t, err, session.ErrReleasePending)
		require.ErrorIs(t, err, driver.ErrRefused)
		time.Sleep(time.Minute)
		refuse.Store(false) // the operator has acted
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, shared.Load())
		require.NoError(t, reader.Unlock())
	})
}

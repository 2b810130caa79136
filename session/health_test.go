package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
)

func TestHealthFollowsTheServiceSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := membackend.New().NewClient()
		opened := time.Now()
		s, err := c.Open(t.Context(), &session.Options{TTL: 10 * time.Second, Margin: time.Second})
		require.NoError(t, err)
		h := s.Health()
		assert.True(t, h.Ready)
		assert.Equal(t, opened, h.Since)
		assert.Positive(t, h.Left)
		assert.LessOrEqual(t, h.Left, 9*time.Second)
		require.NoError(t, h.Err)

		c.Cut(fault.Both)
		time.Sleep(5 * time.Second)
		danger := s.Health()
		assert.True(t, danger.Ready, "the deadline has not passed")
		assert.Less(t, danger.Left, h.Left)
		time.Sleep(5 * time.Second)
		h = s.Health()
		assert.False(t, h.Ready)
		assert.Zero(t, h.Left)
		assert.True(t, h.Since.After(opened))
		require.ErrorIs(t, h.Err, session.ReasonDeadline)
		lost := h.Since

		time.Sleep(time.Minute)
		h = s.Health()
		assert.False(t, h.Ready)
		assert.Equal(t, lost, h.Since)
		require.ErrorIs(t, h.Err, session.ErrUnavailable, "Health has had the next one opened")

		c.Heal()
		synctest.Wait()
		for range 10 { // a probe
			s.Health()
			time.Sleep(time.Second)
		}
		h = s.Health()
		assert.True(t, h.Ready, "only the probe has called it")
		assert.True(t, h.Since.After(lost))
		require.NoError(t, h.Err)

		require.NoError(t, s.Close())
		h = s.Health()
		assert.False(t, h.Ready)
		require.ErrorIs(t, h.Err, session.ErrClosed)
	})
	assert.ErrorIs(t, (*session.Session)(nil).Health().Err, session.ErrClosed)
}

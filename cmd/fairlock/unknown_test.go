package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// interruptedAt holds one of the two permits of the semaphore "x", calls f, and interrupts
// it when it has sent a request of a kind. It returns f's error, and its context.
func interruptedAt(t *testing.T, op fault.Op, f func(ctx context.Context, s *session.Session) error) (context.Context, error) {
	t.Helper()
	st := membackend.New()
	holder, err := st.Open(t.Context(), nil)
	require.NoError(t, err)
	defer holder.Close()
	h, err := semaphore.New(holder, "x", 2).Acquire(t.Context(), 1)
	require.NoError(t, err)
	defer func() { _ = h.Unlock() }() // it may be evicted
	client := st.NewClient()
	s, err := client.Open(t.Context(), nil)
	require.NoError(t, err)
	defer s.Close()
	defer client.Heal()
	ctx, interrupt := context.WithCancel(t.Context())
	client.OnSend(func(sent fault.Op) {
		if sent == op {
			client.Cut(fault.Both)
			interrupt()
		}
	})

	return ctx, f(ctx, s)
}

func TestAnInterruptDoesNotHideThatTheOutcomeIsUnknown(t *testing.T) {
	evict := func(ctx context.Context, s *session.Session) error {
		noColour := true
		return (&app{}).evict(ctx, root(), s, "x", evictFlags{holder: true, yes: true}, &show.Output{NoColour: &noColour})
	}
	for want, c := range map[string]struct {
		at fault.Op
		f  func(context.Context, *session.Session) error
	}{
		"interrupted": {fault.Names, evict}, // before anything was changed
		"it is not known whether .* was evicted: see fairlock who, or repeat it with --token 1: .*": {fault.Leave, evict},
		`it is not known whether the limit of "x" is 3 now: see fairlock ls -o wide, or repeat it: .*`: {fault.Update, func(ctx context.Context, s *session.Session) error {
			_, err := resize(ctx, s, "x", 3)
			return err
		}},
	} {
		ctx, err := interruptedAt(t, c.at, c.f)
		e, ok := errors.AsType[*exit.Error](exit.Of(err))
		require.True(t, ok, "%v", err)

		code, err := ended(ctx, e)

		assert.Equal(t, exit.Interrupted, code)
		assert.Regexp(t, "^"+want+"$", err.Error())
	}
}

func TestAnEvictionEndsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		holder, err := st.Open(t.Context(), nil)
		require.NoError(t, err)
		defer holder.Close()
		_, err = semaphore.New(holder, "x", 2).Acquire(t.Context(), 1)
		require.NoError(t, err)
		client := st.NewClient()
		s, err := client.Open(t.Context(), nil)
		require.NoError(t, err)
		defer s.Close()
		defer client.Heal()
		client.OnSend(func(sent fault.Op) {
			if sent == fault.Leave {
				client.Cut(fault.Both)
			}
		})
		noColour := true

		err = (&app{}).evict(t.Context(), root(), s, "x", evictFlags{holder: true, yes: true}, &show.Output{NoColour: &noColour})

		require.ErrorContains(t, err, "it is not known whether")
		e, ok := errors.AsType[*exit.Error](exit.Of(err))
		require.True(t, ok)
		assert.Equal(t, exit.Unavailable, e.Code)
	})
}

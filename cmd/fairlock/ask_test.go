package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// A holder can receive a yield request before its sender has the service's answer. An
// interrupt in between ends the command like a later one.
func TestAYieldRequestInterruptedBeforeItsAnswerIsSilent(t *testing.T) {
	st := membackend.New()
	holder, err := st.Open(t.Context(), nil)
	require.NoError(t, err)
	defer holder.Close()
	h, err := mutex.New(holder, "x").Lock(t.Context())
	require.NoError(t, err)
	defer recipetest.Unlock(t, h)
	client := st.NewClient()
	s, err := client.Open(t.Context(), nil)
	require.NoError(t, err)
	defer s.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	client.OnSend(func(op fault.Op) {
		if op == fault.Join {
			client.Delay(time.Hour)
		}
	})
	go func() { // ends when the holder has received the request
		_, err := h.Asked(t.Context())
		assert.NoError(t, err)
		interrupt()
	}()
	p := &yieldRequest{askFlags: askFlags{out: &show.Output{}}, name: "x", s: s, stdout: t.Output(), stderr: t.Output()}

	err = p.run(ctx, nil)

	var e *exit.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, exit.Interrupted, e.Code)
	assert.NoError(t, e.Err, "an interrupt is no error to print")
	client.Heal()
}

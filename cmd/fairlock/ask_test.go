package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

// heldByAnother returns another session's hold of the lock x.
func heldByAnother(t *testing.T, st *membackend.Store) *session.Hold {
	t.Helper()
	s, err := st.Open(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	h, err := mutex.New(s, "x").Lock(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { recipetest.Unlock(t, h) })
	return h
}

// A holder can receive a yield request before its sender has the service's answer. An
// interrupt in between ends the command like a later one.
func TestAYieldRequestInterruptedBeforeItsAnswerIsSilent(t *testing.T) {
	st := membackend.New()
	h := heldByAnother(t, st)
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
		_, err := yield.Next(t.Context(), h)
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

func TestAYieldRequestIsSentUntilTheServiceTakesIt(t *testing.T) {
	for name, c := range map[string]struct {
		second func(c *membackend.Client, interrupt func()) // called before the request is sent again
		said   string
	}{
		"a broken connection": {
			second: func(c *membackend.Client, _ func()) { c.Inject(fault.Join, fault.BrokenRequest) },
			said:   "fairlock: asked again\n",
		},
		"an interrupt": {
			second: func(c *membackend.Client, interrupt func()) {
				c.Cut(fault.Both)
				interrupt()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := membackend.New()
				heldByAnother(t, st)
				var err error
				var stderr progtest.Buffer
				p := &yieldRequest{askFlags: askFlags{out: &show.Output{NoColour: new(bool)}}, name: "x", stdout: t.Output(), stderr: &stderr}
				client := st.NewClient()
				p.s, err = client.Open(t.Context(), &session.Options{Hooks: session.Hooks{SessionLost: p.sessionLost}})
				require.NoError(t, err)
				defer p.s.Close()
				defer client.Heal()
				before := st.Sessions()
				ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
				defer interrupt()
				sent := 0
				client.OnSend(func(op fault.Op) {
					if op != fault.Join {
						return
					}
					if sent++; sent == 2 {
						c.second(client, interrupt)
					}
				})
				time.AfterFunc(10*time.Second, func() { st.Expire(before[len(before)-1]) })

				err = p.run(ctx, nil)

				var e *exit.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, exit.Interrupted, e.Code, "%v", err)
				assert.Contains(t, stderr.String(), c.said)
				assert.GreaterOrEqual(t, sent, 2)
			})
		})
	}
}

package main

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/top"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// reader is a stdin that calls a function.
type reader func(p []byte) (int, error)

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) { return r(p) }

// TestAWaiterThatHoldsByNowIsNotEvicted: it was a waiter when the user was asked, and to evict it
// would break the lock.
func TestAWaiterThatHoldsByNowIsNotEvicted(t *testing.T) {
	evict := func(ctx context.Context, s *session.Session, pass func()) error {
		noColour, cmd := true, root()
		cmd.SetErr(io.Discard)
		cmd.SetIn(reader(func(p []byte) (int, error) {
			pass()
			return copy(p, "y\n"), nil
		}))
		return (&app{}).evict(ctx, cmd, s, "x", evictFlags{waiter: 2}, &show.Output{NoColour: &noColour})
	}
	inTop := func(ctx context.Context, s *session.Session, pass func()) error {
		queue, err := (&topService{s: s}).Queue(ctx, "x")
		if err != nil {
			return err
		}
		pass()
		_, err = (&topService{s: s}).Do(ctx, top.Command{Do: top.Evict, Name: "x", Token: queue.Entries[1].Token})
		return err
	}
	for name, f := range map[string]func(ctx context.Context, s *session.Session, pass func()) error{"evict": evict, "top": inTop} {
		t.Run(name, func(t *testing.T) {
			st := membackend.New()
			open := func(label string) *session.Session {
				s, err := st.Open(t.Context(), &session.Options{Label: label})
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, s.Close()) })
				return s
			}
			h, err := mutex.New(open("first"), "x").Lock(t.Context())
			require.NoError(t, err)
			granted := make(chan *session.Hold, 1)
			s := open("second")
			go func() { // ends with the grant
				h, err := mutex.New(s, "x").Lock(t.Context())
				assert.NoError(t, err)
				granted <- h
			}()
			hang.Until(t, func() bool { return len(memtest.Entries(st, "x")) == 2 }, "the second does not wait")
			var next *session.Hold

			err = f(t.Context(), open("operator"), func() {
				assert.NoError(t, h.Unlock())
				next = <-granted
			})

			assert.ErrorContains(t, err, `(second) holds "x" by now: no entry was evicted`)
			if name == "evict" {
				var e *exit.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, exit.Failed, e.Code)
			}
			require.NoError(t, next.Context().Err())
			require.NoError(t, next.Unlock())
		})
	}
}

func TestEvictSelectsTheEntryThatTheFlagsName(t *testing.T) {
	one := schema.Queue{Name: "x", Holders: 1, Waiters: 2, Entries: []schema.Entry{
		{State: schema.Holder, Place: 1, Token: 12}, {State: schema.Waiter, Place: 2, Token: 15}, {State: schema.Waiter, Place: 3, Token: 19},
	}}
	two := schema.Queue{Name: "x", Holders: 2, Entries: []schema.Entry{
		{State: schema.Holder, Place: 1, Token: 12}, {State: schema.Holder, Place: 2, Token: 15},
	}}
	none := schema.Queue{Name: "x", Waiters: 1, Entries: []schema.Entry{{State: schema.Waiter, Place: 1, Token: 12}}}
	for _, c := range []struct {
		queue schema.Queue
		k     evictFlags
		want  int
		err   string
		code  int
	}{
		{one, evictFlags{holder: true}, 0, "", 0},
		{one, evictFlags{token: 12}, 0, "", 0},
		{one, evictFlags{token: 19}, 2, "", 0},
		{one, evictFlags{waiter: 2}, 1, "", 0},
		{one, evictFlags{waiter: 1}, 0, `place 1 of "x" is a holder's, and no waiter's: to evict that, use --token 12`, exit.Usage},
		{one, evictFlags{waiter: 4}, 0, `there is no place 4 in the queue of "x", which has 3`, exit.NoSuchName},
		{one, evictFlags{waiter: -1}, 0, `there is no place -1 in the queue of "x", which has 3`, exit.NoSuchName},
		{one, evictFlags{token: 13}, 0, `no entry of "x" has token 13: it has gone, or never existed`, exit.NoSuchName},
		{two, evictFlags{holder: true}, 0, `2 holders of "x": select one with --token 12 or 15`, exit.Usage},
		{none, evictFlags{holder: true}, 0, `"x" has no holder`, exit.NoSuchName},
	} {
		i, err := c.k.find(c.queue)

		assert.Equal(t, c.want, i)
		if c.err == "" {
			require.NoError(t, err)
			continue
		}
		var e *exit.Error
		require.ErrorAs(t, err, &e, "%+v", c.k)
		assert.Equal(t, c.err, e.Error())
		assert.Equal(t, c.code, e.Code)
	}
}

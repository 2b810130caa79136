package inspect

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
)

func TestAReadEndsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := membackend.New().NewClient()
		s, err := c.Open(t.Context(), nil)
		require.NoError(t, err)
		defer s.Close()
		defer c.Heal()
		c.Cut(fault.Requests)
		for name, read := range map[string]func(context.Context) error{
			"Read":    func(ctx context.Context) error { _, err := Read(ctx, s, "a"); return err },
			"ReadAll": func(ctx context.Context) error { _, err := ReadAll(ctx, s, ""); return err },
			"Asks":    func(ctx context.Context) error { _, err := Asks(ctx, s, "a"); return err },
		} {
			began := time.Now()

			err := read(t.Context())

			assert.ErrorContains(t, err, "the service does not answer within 10s: ", name)
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.Equal(t, readTimeout, time.Since(began), name)
		}
	})
}

// TestAQueueThatCannotBeReadHidesNoOther: an operator has damaged a record of one queue, and
// another one may not be read.
func TestAQueueThatCannotBeReadHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		for _, name := range []string{"gpu", "jobs", "secret"} {
			memtest.PutForeign(st, name, "k", true)
		}
		bad := map[string]error{"gpu": session.ErrRefused, "secret": session.ErrDenied}
		open := func(fail func(queue string) error) *session.Session {
			s, err := session.Engine(door.Key{}).Open(t.Context(), memtest.FailReads(st.NewClient().Backend(), fail), nil)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, s.Close()) })
			return s
		}

		queues, err := ReadAll(t.Context(), open(func(queue string) error { return bad[queue] }), "")

		require.Len(t, queues, 1)
		assert.Equal(t, "jobs", queues[0].Name)
		require.ErrorIs(t, err, session.ErrRefused)
		assert.EqualError(t, err, fmt.Sprintf("2 queues cannot be read; the first: session: queue %q: %s", "gpu", session.ErrRefused))

		queues, err = ReadAll(t.Context(), open(func(string) error { return session.ErrUnavailable }), "")

		assert.Empty(t, queues)
		require.ErrorIs(t, err, session.ErrUnavailable)
	})
}

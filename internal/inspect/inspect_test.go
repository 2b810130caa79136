package inspect

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
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

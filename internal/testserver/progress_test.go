package testserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAWaitEndsWithItsProgress(t *testing.T) {
	for name, c := range map[string]struct {
		every, after time.Duration // a step, and the end of the wait
		cause        string
	}{
		"slow but on its way": {50 * time.Second, 10 * time.Minute, "not in 10m0s, in spite of progress"},
		"silent":              {time.Hour, time.Minute, "no progress in 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := Progressing(t.Context(), time.Minute, func() int { return int(time.Since(began) / c.every) })
				defer cancel()

				<-ctx.Done()

				assert.InDelta(t, c.after, time.Since(began), float64(time.Second))
				require.ErrorContains(t, context.Cause(ctx), c.cause)
				require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
			})
		})
	}
}

func TestAWaitEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := Progressing(t.Context(), time.Minute, func() int { return 0 })
		cancel()

		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
	})
}

package zkbackend

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// The version of a writer's node is 0 until the downgrade, with a seal and without.
func TestTheConditionOfAWriterFailsAfterItsDowngrade(t *testing.T) {
	for _, c := range []struct {
		name string
		mode session.Mode
		want int32
	}{
		{"0123456789abcdefx-__WRIT__0000000004", session.Exclusive, 0},
		{"0123456789abcdef-__WRIT__0000000004", session.Exclusive, 0},
		{"0123456789abcdef__lock__0000000004", session.Exclusive, 0},
		{"0123456789abcdefx-__WRIT__0000000004", session.Shared, -1},
		{"0123456789abcdef-__READ__0000000004", session.Shared, -1},
		{"0123456789abcdefx-lock-0000000004", session.Exclusive, -1},
		{"0123456789abcdefxv-lock-0000000004", session.Exclusive, -1},
	} {
		got := condition(driver.Ref{Queue: "q", Key: "/r/q/" + c.name, Place: 5}, c.mode)
		assert.Equal(t, "/r/q/"+c.name, got.Path)
		assert.Equal(t, c.want, got.Version, c.name)
	}
}

// TestOpenOpensAnotherSessionWhenOneExpiresMeanwhile: the test of a seal sends requests on the new session. If every
// session ends so, the error is that of a service that is not available, with the reason.
func TestOpenOpensAnotherSessionWhenOneExpiresMeanwhile(t *testing.T) {
	const expired = -112
	for _, last := range []int{1, 2, 3, 1 << 30} { // the last request that is answered so
		synctest.Test(t, func(t *testing.T) {
			n := 0
			srv := &server{answer: func(r request) []byte {
				if n++; n <= last {
					return reply(r, expired)
				}
				return refuse(r, 1, noAuth)
			}}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			s, err := Open(ctx, []string{"server"}, &Options{Dial: srv.dial, Session: session.Options{TTL: 8 * time.Second}})
			if last < 10 {
				require.NoError(t, err)
				require.NoError(t, s.Close())
				return
			}
			require.ErrorIs(t, err, session.ErrUnavailable)
			require.NotErrorIs(t, err, driver.ErrSessionOver)
			assert.ErrorContains(t, err, "expired")
		})
	}
}

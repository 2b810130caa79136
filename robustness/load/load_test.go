package load

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/mutex"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The figures are those of the whole process, so the services are tested one at a time.
func TestAllFiguresReturnToTheirStartValues(t *testing.T) {
	for _, service := range []string{"etcd", "zookeeper"} {
		t.Run(service, func(t *testing.T) {
			res, err := On(hang.Context(t), service, Scenario{Name: "everything", Run: Small().Everything})

			var table bytes.Buffer
			if res != nil {
				Table(&table, res)
			}
			t.Log(table.String())
			require.NoError(t, err)
			assert.Zero(t, res.Lost, res.Messages)
		})
	}
}

func TestMomentaryDifferenceIsNotReported(t *testing.T) {
	streaks := map[string]int{}
	for i := range 2 * lastsFor {
		broken := []string{fmt.Sprintf("keys: %d, was 0", i)}
		if i%3 == 0 {
			broken = append(broken, "goroutines: 27, was 26")
		}
		if wrong := lasting(streaks, broken); i < lastsFor-1 {
			assert.Empty(t, wrong)
		} else {
			assert.Equal(t, broken[:1], wrong)
		}
	}
}

func TestForgottenHoldIsReported(t *testing.T) {
	s, err := Etcd(t.Context())
	require.NoError(t, err)
	defer s.Close()

	res, err := scenario(t.Context(), s, "forgetful", 1, 1, func(ctx context.Context, r *run) error {
		m := mutex.New(r.sessions[0], "forgotten")
		h, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		defer h.Unlock()
		hang.Until(t, func() bool { // the time of the grant is a key too
			q, err := m.Queue(ctx)
			return err == nil && !q[0].Granted.IsZero()
		}, "the grant is not recorded")
		r.within = time.Second
		return r.back(ctx, momentRest, r.idle)
	})

	require.ErrorIs(t, err, ErrNotBack)
	assert.Subset(t, res.NotBack, []string{"at rest, keys at the server: 2, was 0", "at rest, watches at the server: 1, was 0"})
}

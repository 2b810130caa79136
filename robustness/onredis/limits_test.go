package onredis_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/robustness/onredis"
	"github.com/fairlock/fairlock/robustness/trial"
)

// An operator, or a Sentinel with a stale view, can make a replica follow the old master again. Then two clients
// can hold at once: docs/reliability.md says so. If this test fails, the limit is gone, and the docs are wrong.
func TestAReplicaThatGoesBackLetsTwoHold(t *testing.T) {
	ctx := hang.Context(t)
	svc, err := onredis.Start(ctx, onredis.Replicas)
	require.NoError(t, err)
	defer func() { assert.NoError(t, svc.Close()) }()
	test := trial.New(svc, trial.Ours, 1)
	_, servers, err := test.Kinds(ctx)
	require.NoError(t, err)
	require.NotContains(t, servers, onredis.GoesBack)

	rs, err := test.Round(ctx, onredis.GoesBack, 8)

	require.NoError(t, err)
	overlaps := 0
	for _, r := range rs {
		for _, v := range r.Violations {
			t.Log(r.Queue, v.Property, v.Text)
			// Where the hold is asked nothing, only the time of its end shows the overlap.
			if v.Property == "S1" || v.Property == "L2" {
				overlaps++
				break
			}
		}
	}
	assert.Positive(t, overlaps)
}

package etcdbackend

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

func TestLimitsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, math.MaxInt64).Draw(t, "limit")
		got, err := parseLimit("k", &mvccpb.KeyValue{Value: formatLimit(limit)})
		require.NoError(t, err)
		require.Equal(t, limit, got)
	})
	got, err := parseLimit("k", nil)
	require.NoError(t, err)
	assert.Zero(t, got, "there is none")
}

func TestBrokenLimitsAreRefused(t *testing.T) {
	for _, v := range []string{"", "0", "-1", "+1", "01", "1 ", "1\n", "eight", "9223372036854775808", strings.Repeat("1", 100)} {
		_, err := parseLimit("r/%beside/x/limit", &mvccpb.KeyValue{Value: []byte(v)})
		require.ErrorIs(t, err, driver.ErrRefused, "%q", v)
		assert.ErrorContains(t, err, `"r/%beside/x/limit"`, "an operator must know where to look")
	}
}

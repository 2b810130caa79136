package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/stand"
)

func TestPlotOfPassesHasALineForEachContestant(t *testing.T) {
	etcd, r := (&old{Ref: "v0.1.0"}).with(serviceOf(t, "etcd")), newRecord()
	none, err := drawPasses(&etcd, r)
	require.NoError(t, err)
	assert.Nil(t, none, "nothing was measured")

	for _, kind := range []stand.Kind{stand.Single, stand.Single.Far(4 * time.Millisecond), stand.Three} {
		for _, c := range etcd.together() {
			for i, metric := range []string{metricHandOffP50, metricHandOff} {
				r.add(key{"pass", kind, 100, c.Name, metric}, micros, float64(30*(i+1))+float64(kind.RTT().Microseconds()))
			}
		}
	}
	svg, err := drawPasses(&etcd, r)
	require.NoError(t, err)

	for text, times := range map[string]int{
		">Hand-off in one process, etcd single<":     1,
		">Hand-off in one process, etcd three<":      1,
		">fairlock, one session, p50<":               2,
		">fairlock, one session, mean<":              2,
		">fairlock v0.1.0, one session, p50<":        2,
		">Mutex, one client, p50<":                   2,
		">fairlock v0.1.0, one session, mean<":       0,
		">Mutex, one client, mean<":                  0,
		">Hand-off in one process, etcd single+4ms<": 0,
	} {
		assert.Equal(t, times, strings.Count(string(svg), text), text)
	}
	points := pointsOf(r, metricHandOff, func(k key) (float64, bool) {
		return float64(k.Size), k.Contestant == stand.OursOneSession && k.Cluster == stand.Single
	})
	require.Len(t, points.XYs, 1)
	assert.InDelta(t, 0.060, points.XYs[0].Y, 1e-9, "in ms")
}

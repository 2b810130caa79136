package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/bench/stand"
)

func TestSpreadOf(t *testing.T) {
	assert.Equal(t, spread{}, spreadOf(nil))
	assert.Equal(t, spread{7, 7, 7}, spreadOf([]float64{7}))
	assert.InDelta(t, 4, spreadOf([]float64{3, 5}).Median, 0)
	values := []float64{9, 1, 5}
	assert.Equal(t, spread{Median: 5, Min: 1, Max: 9}, spreadOf(values))
	assert.Equal(t, []float64{9, 1, 5}, values, "the rounds keep their order")
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	// Both sides took ten times as long in the second round, which is no spread of the ratio.
	assert.Equal(t, []float64{0.5, 0.5}, ratios([]float64{1, 10}, []float64{2, 20}))
	assert.Equal(t, []float64{3}, ratios([]float64{3, 9}, []float64{1}), "the second round has one side only")
	assert.Empty(t, ratios([]float64{3}, []float64{0}))
}

func TestRecordKeepsRoundsAndOrder(t *testing.T) {
	r := newRecord()
	b := key{"churn", stand.Single, 2, stand.Ours, metricRate}
	a := b
	a.Contestant = "Mutex"
	r.add(b, perSec, 10)
	r.add(a, perSec, 1)
	r.add(b, perSec, 20)

	assert.Equal(t, []float64{10, 20}, r.get(b).Rounds)
	assert.Equal(t, []*figure{r.get(b), r.get(a)}, r.figures)
	assert.Equal(t, r.get(a), r.versus(b, "Mutex"))
	assert.Nil(t, r.versus(b, unique))
}

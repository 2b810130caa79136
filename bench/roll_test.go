package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/internal/rollout"
)

// checkRoll judges what does not depend on how fast the candidates step.
func checkRoll(t *testing.T, cs []stand.Contestant, value func(scenario string, size int, contestant, metric string) float64) {
	t.Helper()
	of := func(c stand.Contestant, metric string) float64 {
		return value("roll", rollout.Replicas, c.Name, rollout.Script{NewFirst: true}.String()+": "+metric)
	}
	for _, c := range cs {
		assert.Zero(t, of(c, metricOverlaps), c.Name)
		assert.GreaterOrEqual(t, of(c, metricChanges), 1.0, c.Name)
		assert.LessOrEqual(t, of(c, metricChanges), float64(rollout.Replicas), c.Name)
	}
}

package ticks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// at is a time, in seconds.
func at(s float64) time.Time { return time.Unix(0, int64(s*1e9)).UTC() }

func TestEachRunTakesATickOfItsOwn(t *testing.T) {
	for _, c := range []struct {
		name    string
		planned []float64 // the first follows 0
		runs    []float64
		want    []float64 // 0: none
	}{
		{"on time", []float64{10, 20}, []float64{10, 20}, []float64{10, 20}},
		{"late", []float64{10, 20}, []float64{18.9, 28.9}, []float64{10, 20}},
		{"early by the wall clock", []float64{10, 20}, []float64{9.1, 19.1}, []float64{10, 20}},
		{"too early", []float64{10}, []float64{8.9}, []float64{0}},
		{"both late", []float64{10, 20}, []float64{21, 22}, []float64{20, 10}},
		{"one was skipped", []float64{10, 20, 30}, []float64{21, 30}, []float64{20, 30}},
		{"by hand, after its tick", []float64{10, 20}, []float64{10, 11}, []float64{10, 0}},
		{"planned twice", []float64{10, 20, 20}, []float64{10, 20, 20}, []float64{10, 20, 0}},
		{"nothing planned", nil, []float64{10}, []float64{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ticks Ticks
			before := 0.0
			for _, p := range c.planned {
				ticks.Plan(at(before), at(p))
				before = p
			}
			for i, run := range c.runs {
				got, ok := ticks.Take(at(run))
				assert.Equal(t, c.want[i] != 0, ok)
				if ok {
					assert.Equal(t, at(c.want[i]), got)
				}
			}
		})
	}
}

func TestATimeThatNeverComesIsNoTick(t *testing.T) {
	var ticks Ticks
	ticks.Plan(at(1), time.Time{})

	_, ok := ticks.Take(at(2))
	assert.False(t, ok)
}

func TestFewPastTicksAreKept(t *testing.T) {
	var ticks Ticks
	for i := range 1000 {
		ticks.Plan(at(float64(i)), at(float64(i+1)))
	}
	got, ok := ticks.Take(at(500))

	assert.True(t, ok)
	assert.Equal(t, at(500), got)
	assert.Len(t, ticks.planned, kept+500, "what is due later stays")
}

func TestAKeyIsTheSameInEveryZone(t *testing.T) {
	there := at(86400).In(time.FixedZone("there", 3600))
	assert.Equal(t, "1970-01-02T00:00:00Z", Key(there))
	assert.Equal(t, at(90), Next(30*time.Second, at(60)))
	assert.Equal(t, at(60), Next(30*time.Second, at(59)))
}

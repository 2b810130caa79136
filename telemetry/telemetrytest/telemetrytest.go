// Package telemetrytest is the suite for exporters of package telemetry's metrics. It
// makes requests on a service in memory, in virtual time, and compares all values that
// the exporter shows with what has happened.
package telemetrytest

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
)

// Exporter is the exporter under test.
type Exporter struct {
	// Hooks are those of the exporter.
	Hooks session.Hooks

	// Read returns what the exporter shows now, in any order. It reads what a user of
	// the exporter would get, so that the names of metrics and attributes are tested.
	Read func() []Sample
}

// Sample is what an exporter shows of a metric with these values of attributes.
type Sample struct {
	ID     telemetry.ID
	Values telemetry.Values

	// Value is that of a counter or a gauge, and the sum of a histogram.
	Value float64

	// Counts are the numbers of values in each bucket of a histogram; the last is of
	// those above all bounds.
	Counts []uint64
}

// String returns the sample as one line.
func (s Sample) String() string {
	return fmt.Sprintf("%s %+v %v %v", telemetry.Metrics()[s.ID].Name, s.Values, s.Value, s.Counts)
}

// Open returns a new exporter with these options. It is called in a bubble of
// testing/synctest, which ends when the case does.
type Open func(t *testing.T, o *telemetry.Options) Exporter

// Run runs the suite. It fails if the exporter shows anything that did not happen, or
// does not show what happened; and if the list of metrics has one that no case makes the
// exporter show.
func Run(t *testing.T, open Open) {
	cases := slices.Concat(requests(), sessions(), namings())
	shown := map[telemetry.ID]bool{}
	ran := 0
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ran++
			synctest.Test(t, func(t *testing.T) {
				x := newFixture(t, open, c.options, shown)
				c.do(x)
				x.close()
			})
		})
	}
	t.Run("StaysRightUnderLoad", func(t *testing.T) { underLoad(t, open) })
	if ran < len(cases) {
		return // the flag -run has selected some
	}
	for _, m := range telemetry.Metrics() {
		assert.True(t, shown[m.ID], "no case has a value of %s: add one to package telemetrytest", m.Name)
	}
}

// testCase is a case of the suite.
type testCase struct {
	name    string // a claim
	options *telemetry.Options
	do      func(x *fixture)
}

// counted is a Sample of a counter or a gauge.
func counted(id telemetry.ID, value float64, v telemetry.Values) Sample {
	return Sample{ID: id, Values: v, Value: value}
}

// measured is a Sample of a histogram with these values, in seconds.
func measured(id telemetry.ID, v telemetry.Values, seconds ...float64) Sample {
	bounds := telemetry.Metrics()[id].Buckets
	s := Sample{ID: id, Values: v, Counts: make([]uint64, len(bounds)+1)}
	for _, value := range seconds {
		bucket, _ := slices.BinarySearch(bounds, value) // a bound belongs to its bucket
		s.Counts[bucket]++
		s.Value += value
	}
	return s
}

package telemetry_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/fairlock/fairlock/telemetry"
	"github.com/fairlock/fairlock/telemetry/telemetrytest"
)

// series identifies the values of a metric with the same attributes.
type series struct {
	id telemetry.ID
	telemetry.Values
}

// recorder is an exporter that keeps everything in maps.
type recorder struct {
	mu     sync.Mutex
	values map[series]telemetrytest.Sample
	gauges map[telemetry.ID]func() (float64, bool)
}

func newRecorder() *recorder {
	return &recorder{values: map[series]telemetrytest.Sample{}, gauges: map[telemetry.ID]func() (float64, bool){}}
}

func (r *recorder) Add(_ context.Context, id telemetry.ID, delta int64, v telemetry.Values) {
	r.change(id, v, func(s *telemetrytest.Sample) { s.Value += float64(delta) })
}

func (r *recorder) Record(_ context.Context, id telemetry.ID, seconds float64, v telemetry.Values) {
	bounds := telemetry.Metrics()[id].Buckets
	bucket, _ := slices.BinarySearch(bounds, seconds)
	r.change(id, v, func(s *telemetrytest.Sample) {
		if s.Counts == nil {
			s.Counts = make([]uint64, len(bounds)+1)
		}
		s.Value += seconds
		s.Counts[bucket]++
	})
}

func (r *recorder) Observe(id telemetry.ID, read func() (float64, bool)) { r.gauges[id] = read }

func (r *recorder) change(id telemetry.ID, v telemetry.Values, f func(*telemetrytest.Sample)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.values[series{id, v}]
	if !ok {
		s = telemetrytest.Sample{ID: id, Values: v}
	}
	f(&s)
	r.values[series{id, v}] = s
}

func (r *recorder) read() []telemetrytest.Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Collect(maps.Values(r.values))
	for id, read := range r.gauges {
		if value, ok := read(); ok {
			all = append(all, telemetrytest.Sample{ID: id, Value: value})
		}
	}
	for i := range all {
		all[i].Counts = slices.Clone(all[i].Counts)
	}
	return all
}

// value returns the value of a counter, 0 if nothing was counted.
func (r *recorder) value(id telemetry.ID, v telemetry.Values) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.values[series{id, v}].Value
}

func TestHooks(t *testing.T) {
	telemetrytest.Run(t, func(_ *testing.T, o *telemetry.Options) telemetrytest.Exporter {
		r := newRecorder()
		return telemetrytest.Exporter{Hooks: telemetry.Hooks(r, o), Read: r.read}
	})
}

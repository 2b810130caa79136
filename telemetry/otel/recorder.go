package otel

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fairlock/fairlock/telemetry"
)

// recorder implements telemetry.Recorder. Each slice has the instruments of a kind at the
// IDs of their metrics.
type recorder struct {
	meter      metric.Meter
	metrics    []telemetry.Metric
	counters   []metric.Int64Counter
	upDowns    []metric.Int64UpDownCounter
	histograms []metric.Float64Histogram
	err        error // of Observe

	// sets are the attributes of all values that were recorded: as many as the rule for
	// names allows.
	mu   sync.RWMutex
	sets map[telemetry.Values]set
}

// set are attributes as options, which would otherwise be made for each value.
type set struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

var _ telemetry.Recorder = (*recorder)(nil)

func newRecorder(meter metric.Meter) (*recorder, error) {
	all := telemetry.Metrics()
	n := len(all)
	r := &recorder{
		meter: meter, metrics: all, counters: make([]metric.Int64Counter, n), upDowns: make([]metric.Int64UpDownCounter, n),
		histograms: make([]metric.Float64Histogram, n), sets: map[telemetry.Values]set{},
	}
	for i, m := range all {
		unit, help := metric.WithUnit(m.Unit), metric.WithDescription(m.Help)
		var err error
		switch m.Kind {
		case telemetry.Counter:
			r.counters[i], err = meter.Int64Counter(m.Name, unit, help)
		case telemetry.UpDownCounter:
			r.upDowns[i], err = meter.Int64UpDownCounter(m.Name, unit, help)
		case telemetry.Histogram:
			r.histograms[i], err = meter.Float64Histogram(m.Name, unit, help, metric.WithExplicitBucketBoundaries(m.Buckets...))
		case telemetry.Gauge: // see Observe
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Add implements telemetry.Recorder.
func (r *recorder) Add(ctx context.Context, id telemetry.ID, delta int64, v telemetry.Values) {
	if upDown := r.upDowns[id]; upDown != nil {
		upDown.Add(ctx, delta, r.set(id, v).add...)
		return
	}
	r.counters[id].Add(ctx, delta, r.set(id, v).add...)
}

// Record implements telemetry.Recorder.
func (r *recorder) Record(ctx context.Context, id telemetry.ID, seconds float64, v telemetry.Values) {
	r.histograms[id].Record(ctx, seconds, r.set(id, v).record...)
}

// Observe implements telemetry.Recorder.
func (r *recorder) Observe(id telemetry.ID, read func() (float64, bool)) {
	m := r.metrics[id]
	_, r.err = r.meter.Float64ObservableGauge(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			if value, ok := read(); ok {
				o.Observe(value)
			}
			return nil
		}))
}

// set returns the attributes of a metric. Metrics with the same Values have the same
// attributes: those that are not empty.
func (r *recorder) set(id telemetry.ID, v telemetry.Values) set {
	r.mu.RLock()
	s, ok := r.sets[v]
	r.mu.RUnlock()
	if ok {
		return s
	}
	var all []attribute.KeyValue
	for _, a := range r.metrics[id].Attributes {
		all = append(all, attribute.String(string(a), v.Of(a)))
	}
	option := metric.WithAttributeSet(attribute.NewSet(all...))
	s = set{[]metric.AddOption{option}, []metric.RecordOption{option}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sets[v] = s
	return s
}

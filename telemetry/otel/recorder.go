package otel

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fairlock/fairlock/telemetry"
)

// recorder implements telemetry.Recorder. Each slice has the instruments of a kind at the
// IDs of their metrics. An UpDownCounter is kept here, and observed when the metrics are
// collected, because callers of locks change it.
type recorder struct {
	meter      metric.Meter
	metrics    []telemetry.Metric
	counters   []metric.Int64Counter
	histograms []metric.Float64Histogram
	err        error // of Observe

	// series are all that were recorded: as many as the rule for names allows.
	mu     sync.RWMutex
	series map[seriesKey]*series
}

type seriesKey struct {
	id     telemetry.ID
	values telemetry.Values
}

// series are the attributes of one series as options, which would otherwise be made for each
// value, and its sum if it is of an UpDownCounter.
type series struct {
	add     []metric.AddOption
	record  []metric.RecordOption
	observe []metric.ObserveOption
	sum     atomic.Int64
}

var _ telemetry.Recorder = (*recorder)(nil)

func newRecorder(meter metric.Meter) (*recorder, error) {
	all := telemetry.Metrics()
	n := len(all)
	r := &recorder{
		meter: meter, metrics: all, counters: make([]metric.Int64Counter, n), histograms: make([]metric.Float64Histogram, n),
		series: map[seriesKey]*series{},
	}
	for i, m := range all {
		unit, help := metric.WithUnit(m.Unit), metric.WithDescription(m.Help)
		var err error
		switch m.Kind {
		case telemetry.Counter:
			r.counters[i], err = meter.Int64Counter(m.Name, unit, help)
		case telemetry.UpDownCounter:
			_, err = meter.Int64ObservableUpDownCounter(m.Name, unit, help, metric.WithInt64Callback(r.sums(m.ID)))
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
	s := r.of(id, v)
	c := r.counters[id]
	if c != nil {
		c.Add(ctx, delta, s.add...)
		return
	}
	s.sum.Add(delta)
}

// sums returns what observes an UpDownCounter.
func (r *recorder) sums(id telemetry.ID) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		r.mu.RLock()
		defer r.mu.RUnlock()
		for k, s := range r.series {
			if k.id == id {
				o.Observe(s.sum.Load(), s.observe...)
			}
		}
		return nil
	}
}

// Record implements telemetry.Recorder.
func (r *recorder) Record(ctx context.Context, id telemetry.ID, seconds float64, v telemetry.Values) {
	r.histograms[id].Record(ctx, seconds, r.of(id, v).record...)
}

// Observe implements telemetry.Recorder.
func (r *recorder) Observe(id telemetry.ID, read func() (float64, bool)) {
	m := r.metrics[id]
	_, r.err = r.meter.Float64ObservableGauge(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			value, ok := read()
			if ok {
				o.Observe(value)
			}
			return nil
		}))
}

// of returns the series of a metric with these values.
func (r *recorder) of(id telemetry.ID, v telemetry.Values) *series {
	k := seriesKey{id, v}
	r.mu.RLock()
	s := r.series[k]
	r.mu.RUnlock()
	if s != nil {
		return s
	}
	var all []attribute.KeyValue
	for _, a := range r.metrics[id].Attributes {
		all = append(all, attribute.String(string(a), v.Of(a)))
	}
	option := metric.WithAttributeSet(attribute.NewSet(all...))
	r.mu.Lock()
	defer r.mu.Unlock()
	s = r.series[k]
	if s == nil {
		s = &series{add: []metric.AddOption{option}, record: []metric.RecordOption{option}, observe: []metric.ObserveOption{option}}
		r.series[k] = s
	}
	return s
}

package prometheus

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlock/fairlock/telemetry"
)

// recorder implements telemetry.Recorder. Each slice has the metrics of a kind at their
// IDs.
type recorder struct {
	metrics    []telemetry.Metric
	counters   []*prometheus.CounterVec
	gauges     []*prometheus.GaugeVec
	histograms []*prometheus.HistogramVec
	observed   []*observed
}

var _ telemetry.Recorder = (*recorder)(nil)

func newRecorder(metrics []telemetry.Metric) *recorder {
	n := len(metrics)
	return &recorder{
		metrics: metrics, counters: make([]*prometheus.CounterVec, n), gauges: make([]*prometheus.GaugeVec, n),
		histograms: make([]*prometheus.HistogramVec, n), observed: make([]*observed, n),
	}
}

// Add implements telemetry.Recorder.
func (r *recorder) Add(_ context.Context, id telemetry.ID, delta int64, v telemetry.Values) {
	var room [mostLabels]string
	labels := r.labels(room[:0], id, v)
	gauge := r.gauges[id]
	if gauge != nil {
		gauge.WithLabelValues(labels...).Add(float64(delta))
		return
	}
	r.counters[id].WithLabelValues(labels...).Add(float64(delta))
}

// Record implements telemetry.Recorder.
func (r *recorder) Record(_ context.Context, id telemetry.ID, seconds float64, v telemetry.Values) {
	var room [mostLabels]string
	r.histograms[id].WithLabelValues(r.labels(room[:0], id, v)...).Observe(seconds)
}

// Observe implements telemetry.Recorder.
func (r *recorder) Observe(id telemetry.ID, read func() (float64, bool)) { r.observed[id].read = read }

// mostLabels is how many labels a metric has at most. More are no error, and cost an
// allocation.
const mostLabels = 4

// labels appends the values of the labels of a metric.
func (r *recorder) labels(to []string, id telemetry.ID, v telemetry.Values) []string {
	for _, a := range r.metrics[id].Attributes {
		to = append(to, v.Of(a))
	}
	return to
}

// observed is a gauge that is read when it is collected.
type observed struct {
	desc *prometheus.Desc
	read func() (value float64, ok bool) // set before the first use
}

// Describe implements prometheus.Collector.
func (o *observed) Describe(descs chan<- *prometheus.Desc) { descs <- o.desc }

// Collect implements prometheus.Collector.
func (o *observed) Collect(metrics chan<- prometheus.Metric) {
	value, ok := o.read()
	if ok {
		metrics <- prometheus.MustNewConstMetric(o.desc, prometheus.GaugeValue, value)
	}
}

// Package prometheus shows the metrics of package telemetry to Prometheus. It is a module
// of its own, so that only programs that want it depend on Prometheus' client.
//
//	metrics := prometheus.New(nil)
//	registry.MustRegister(metrics)
//	s, err := etcdbackend.Open(ctx, client, &etcdbackend.Options{
//		Session: session.Options{Hooks: metrics.Hooks()},
//	})
//
// The names, labels and buckets are those of telemetry.Metrics. A scrape reads what the
// process has counted, and sends nothing to the service: it works during an outage.
package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
)

// Collector is a prometheus.Collector with the metrics of any number of Sessions. It is
// safe for concurrent use.
type Collector struct {
	metrics []prometheus.Collector // by telemetry.ID
	hooks   session.Hooks
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector without values, to be registered. A nil o means the defaults of
// telemetry.Options. One Collector serves a whole program: a registry refuses a second
// one, unless both are registered with different labels, as
// prometheus.WrapRegistererWith does.
func New(o *telemetry.Options) *Collector {
	all := telemetry.Metrics()
	c := &Collector{metrics: make([]prometheus.Collector, len(all))}
	r := newRecorder(all)
	for i, m := range all {
		labels := labelsOf(m)
		switch m.Kind {
		case telemetry.Counter:
			r.counters[i] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Prometheus, Help: m.Help}, labels)
			c.metrics[i] = r.counters[i]
		case telemetry.UpDownCounter:
			r.gauges[i] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Prometheus, Help: m.Help}, labels)
			c.metrics[i] = r.gauges[i]
		case telemetry.Histogram:
			r.histograms[i] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Prometheus, Help: m.Help, Buckets: m.Buckets}, labels)
			c.metrics[i] = r.histograms[i]
		case telemetry.Gauge:
			r.observed[i] = &observed{desc: prometheus.NewDesc(m.Prometheus, m.Help, labels, nil)}
			c.metrics[i] = r.observed[i]
		}
	}
	c.hooks = telemetry.Hooks(r, o)
	return c
}

// labelsOf returns the names of the labels of a metric.
func labelsOf(m telemetry.Metric) []string {
	labels := make([]string, len(m.Attributes))
	for i, a := range m.Attributes {
		labels[i] = a.Label()
	}
	return labels
}

// Hooks returns the hooks for session.Options. They may be used for several Sessions;
// telemetry.Join adds others.
func (c *Collector) Hooks() session.Hooks { return c.hooks }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		m.Describe(descs)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	for _, m := range c.metrics {
		m.Collect(metrics)
	}
}

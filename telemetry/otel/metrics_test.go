package otel_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	metricsdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/telemetry"
	"github.com/fairlock/fairlock/telemetry/otel"
	"github.com/fairlock/fairlock/telemetry/telemetrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMetrics runs the suite with traces on, so that every span of its cases is ended too.
func TestMetrics(t *testing.T) {
	telemetrytest.Run(t, func(t *testing.T, o *telemetry.Options) telemetrytest.Exporter {
		reader, recorded := metricsdk.NewManualReader(), tracetest.NewSpanRecorder()
		opts := &otel.Options{
			TracerProvider: tracesdk.NewTracerProvider(tracesdk.WithSpanProcessor(recorded)),
			MeterProvider:  metricsdk.NewMeterProvider(metricsdk.WithReader(reader)),
		}
		if o != nil {
			opts.Names = *o
		}
		hooks, err := otel.Hooks(opts)
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.Len(t, recorded.Ended(), len(recorded.Started()), "a span was not ended, or twice")
		})
		return telemetrytest.Exporter{Hooks: hooks, Read: func() []telemetrytest.Sample { return samples(t, reader) }}
	})
}

// samples returns what the reader collects.
func samples(t *testing.T, reader *metricsdk.ManualReader) []telemetrytest.Sample {
	var collected metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &collected))
	found := map[string]metricdata.Metrics{}
	for _, scope := range collected.ScopeMetrics {
		require.Equal(t, "github.com/fairlock/fairlock/telemetry/otel", scope.Scope.Name)
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	var all []telemetrytest.Sample
	for _, m := range telemetry.Metrics() {
		got, ok := found[m.Name]
		if !ok {
			continue
		}
		delete(found, m.Name)
		require.Equal(t, m.Unit, got.Unit, m.Name)
		require.Equal(t, m.Help, got.Description, m.Name)
		all = append(all, points(t, m, got.Data)...)
	}
	require.Empty(t, found, "no metric of the list")
	return all
}

// points returns the data of a metric as the suite knows it.
func points(t *testing.T, m telemetry.Metric, data metricdata.Aggregation) (all []telemetrytest.Sample) {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		require.Equal(t, m.Kind == telemetry.Counter, data.IsMonotonic, m.Name)
		require.Contains(t, []telemetry.Kind{telemetry.Counter, telemetry.UpDownCounter}, m.Kind)
		for _, p := range data.DataPoints {
			all = append(all, telemetrytest.Sample{ID: m.ID, Values: values(t, m, p.Attributes), Value: float64(p.Value)})
		}
	case metricdata.Gauge[float64]:
		require.Equal(t, telemetry.Gauge, m.Kind, m.Name)
		for _, p := range data.DataPoints {
			all = append(all, telemetrytest.Sample{ID: m.ID, Values: values(t, m, p.Attributes), Value: p.Value})
		}
	case metricdata.Histogram[float64]:
		require.Equal(t, telemetry.Histogram, m.Kind, m.Name)
		for _, p := range data.DataPoints {
			require.Equal(t, m.Buckets, p.Bounds, m.Name)
			all = append(all, telemetrytest.Sample{ID: m.ID, Values: values(t, m, p.Attributes), Value: p.Sum, Counts: p.BucketCounts})
		}
	default:
		require.Fail(t, "unexpected", "%s is %T", m.Name, data)
	}
	return all
}

// values returns attributes, of which there must be those of the metric.
func values(t *testing.T, m telemetry.Metric, set attribute.Set) (v telemetry.Values) {
	require.Equal(t, len(m.Attributes), set.Len(), m.Name)
	for to, a := range map[*string]telemetry.Attribute{
		&v.Name: telemetry.LockName, &v.Kind: telemetry.LockKind, &v.Mode: telemetry.LockMode,
		&v.Outcome: telemetry.Outcome, &v.End: telemetry.HoldEnd, &v.Reason: telemetry.Reason,
	} {
		value, _ := set.Value(attribute.Key(a))
		*to = value.AsString()
	}
	return v
}

// broken is a provider whose meter cannot make some kinds of instruments.
type broken struct {
	metricnoop.MeterProvider
	counter, gauge error
}

func (b broken) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{of: b} }

type brokenMeter struct {
	metricnoop.Meter
	of broken
}

func (m brokenMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return metricnoop.Int64Counter{}, m.of.counter
}

func (m brokenMeter) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return metricnoop.Float64ObservableGauge{}, m.of.gauge
}

func TestInstrumentThatCannotBeMadeIsAnError(t *testing.T) {
	for _, b := range []broken{{counter: assert.AnError}, {gauge: assert.AnError}} {
		_, err := otel.Hooks(&otel.Options{MeterProvider: b})
		require.ErrorIs(t, err, assert.AnError)
	}
}

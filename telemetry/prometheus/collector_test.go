package prometheus_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry"
	"github.com/fairlock/fairlock/telemetry/prometheus"
	"github.com/fairlock/fairlock/telemetry/telemetrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCollector(t *testing.T) {
	telemetrytest.Run(t, func(t *testing.T, o *telemetry.Options) telemetrytest.Exporter {
		c := prometheus.New(o)
		registry := client.NewPedanticRegistry()
		require.NoError(t, registry.Register(c))
		return telemetrytest.Exporter{Hooks: c.Hooks(), Read: func() []telemetrytest.Sample { return samples(t, registry) }}
	})
}

// samples returns what a server of Prometheus would read: the page is written and parsed.
func samples(t *testing.T, registry *client.Registry) []telemetrytest.Sample {
	families, err := registry.Gather()
	require.NoError(t, err)
	var page bytes.Buffer
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&page, f)
		require.NoError(t, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(&page)
	require.NoError(t, err)
	var all []telemetrytest.Sample
	for _, m := range telemetry.Metrics() {
		f := parsed[m.Prometheus]
		delete(parsed, m.Prometheus)
		for _, series := range f.GetMetric() {
			require.Equal(t, typeOf(m.Kind), f.GetType(), m.Name)
			require.Equal(t, m.Help, f.GetHelp())
			all = append(all, sample(t, m, series))
		}
	}
	require.Empty(t, parsed, "no metric of the list")
	return all
}

func typeOf(k telemetry.Kind) dto.MetricType {
	switch k {
	case telemetry.Counter:
		return dto.MetricType_COUNTER
	case telemetry.Histogram:
		return dto.MetricType_HISTOGRAM
	default:
		return dto.MetricType_GAUGE
	}
}

// sample returns a series as the suite knows it.
func sample(t *testing.T, m telemetry.Metric, series *dto.Metric) telemetrytest.Sample {
	s := telemetrytest.Sample{ID: m.ID, Value: series.GetGauge().GetValue() + series.GetCounter().GetValue()}
	v := map[string]*string{
		"lock": &s.Values.Name, "kind": &s.Values.Kind, "mode": &s.Values.Mode,
		"outcome": &s.Values.Outcome, "end": &s.Values.End, "reason": &s.Values.Reason,
	}
	for _, l := range series.GetLabel() {
		require.Contains(t, v, l.GetName())
		*v[l.GetName()] = l.GetValue()
	}
	if h := series.GetHistogram(); h != nil {
		s.Value = h.GetSampleSum()
		var before uint64
		for i, b := range h.GetBucket() {
			if i < len(m.Buckets) {
				require.InDelta(t, m.Buckets[i], b.GetUpperBound(), 0)
			}
			s.Counts = append(s.Counts, b.GetCumulativeCount()-before)
			before = b.GetCumulativeCount()
		}
		require.Len(t, s.Counts, len(m.Buckets)+1)
		require.Equal(t, before, h.GetSampleCount())
	}
	return s
}

// TestScrapeDuringAnOutageIsAPage: the handler answers while the service is cut off,
// without waiting for it: the time is virtual, and goes on only where something waits.
func TestScrapeDuringAnOutageIsAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prometheus.New(nil)
		registry := client.NewRegistry()
		registry.MustRegister(c)
		net := membackend.New().NewClient()
		s, err := net.Open(t.Context(), &session.Options{Hooks: c.Hooks(), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		h, err := mutex.New(s, "orders").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		net.Cut(fault.Both)
		for _, want := range []string{`fairlock_holds{kind="mutex",lock="orders"} 1`, `fairlock_holds{kind="mutex",lock="orders"} 0`} {
			page, sent, before := httptest.NewRecorder(), net.Requests(), time.Now()
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
			assert.Equal(t, 200, page.Code)
			assert.Contains(t, strings.Split(page.Body.String(), "\n"), want)
			assert.Equal(t, sent, net.Requests())
			assert.Equal(t, before, time.Now())
			<-h.Context().Done()
			synctest.Wait()
		}
		net.Heal()
		require.NoError(t, s.Close())
	})
}

// TestNamesFollowTheConventions is what promtool would complain about.
func TestNamesFollowTheConventions(t *testing.T) {
	c := prometheus.New(nil)
	s, err := membackend.New().Open(t.Context(), &session.Options{Hooks: c.Hooks()})
	require.NoError(t, err)
	require.NoError(t, mutex.New(s, "n").Do(t.Context(), nothing))
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	assert.Empty(t, problems)
	require.NoError(t, s.Close())
}

// TestCollectorIsDescribedBeforeItHasValues: a registry that knows the metrics refuses
// another collector with the same names at once.
func TestCollectorIsDescribedBeforeItHasValues(t *testing.T) {
	descs := make(chan *client.Desc, 100)
	prometheus.New(nil).Describe(descs)
	assert.Len(t, descs, len(telemetry.Metrics()))
	registry := client.NewRegistry()
	require.NoError(t, registry.Register(prometheus.New(nil)))
	require.Error(t, registry.Register(prometheus.New(nil)))
	require.NoError(t, client.WrapRegistererWith(client.Labels{"service": "b"}, client.NewRegistry()).Register(prometheus.New(nil)))
	metrics := telemetry.Metrics()
	assert.False(t, slices.ContainsFunc(metrics, func(m telemetry.Metric) bool { return len(m.Attributes) > 4 }), "recorder.go has room for four labels")
}

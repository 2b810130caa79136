// Package monitoring has the alerting rules and the dashboard for the metrics of package
// telemetry. Folder generate writes them as files for Prometheus and Grafana.
package monitoring

import (
	"fmt"

	"github.com/fairlock/fairlock/telemetry"
)

// metric returns the name of a metric in Prometheus.
func metric(id telemetry.ID) string { return telemetry.Metrics()[id].Prometheus }

// count returns the name of the counter of a histogram's values.
func count(id telemetry.ID) string { return metric(id) + "_count" }

// with returns a selector of the series with these labels.
func with(name, labels string) string {
	if labels == "" {
		return name
	}
	return name + "{" + labels + "}"
}

// risen returns an expression for how much counters have risen within a time. The value with
// which a counter appears does not count. It is 0 for the counters of losses and rejoins.
func risen(name, labels, within, by string) string {
	return fmt.Sprintf("sum by (%s) (increase(%s[%s]))", by, with(name, labels), within)
}

// moved returns an expression that has a result where counters have risen, or appeared, within
// a time.
func moved(name, labels, within, by string) string {
	series := with(name, labels)
	return fmt.Sprintf("sum by (%s) (increase(%s[%s]) > 0 or %s unless %s offset %s)", by, series, within, series, series, within)
}

// quantile returns an expression for a quantile of a histogram's values within a time.
func quantile(q string, id telemetry.ID, labels, within, by string) string {
	return fmt.Sprintf("histogram_quantile(%s, sum by (%s, le) (rate(%s[%s])))", q, by, with(metric(id)+"_bucket", labels), within)
}

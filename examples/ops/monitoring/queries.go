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

// risen returns an expression for how much counters have risen within a time. A counter
// that appears with its first value, as one with the reason of a loss does, has risen by
// that value: increase alone would not count it. It has appeared if it had no value in the
// hour before; a target that could not be scraped for a while has not.
func risen(name, labels, within, by string) string {
	series := with(name, labels)
	return fmt.Sprintf("sum by (%s) (\n  (%s unless last_over_time(%s[1h] offset %s))\n  or increase(%s[%s])\n)", by, series, series, within, series, within)
}

// quantile returns an expression for a quantile of a histogram's values within a time.
func quantile(q string, id telemetry.ID, labels, within, by string) string {
	return fmt.Sprintf("histogram_quantile(%s, sum by (%s, le) (rate(%s[%s])))", q, by, with(metric(id)+"_bucket", labels), within)
}

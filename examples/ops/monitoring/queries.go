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
// which a series begins does not count.
func risen(name, labels, within, by string) string {
	return fmt.Sprintf("sum by (%s) (increase(%s[%s]))", by, with(name, labels), within)
}

// newlyRisen returns an expression for how much counters of a lock have risen within a time. It has
// no result where they have not. What a series has begun with counts too: the lock's first request
// came after a scrape, and the loss before the next, or the series is a histogram's, which begins
// with its first value. Such a series has fewer samples than the gauge of sessions, which begins with
// the process. If it has as many, Prometheus or the target is new, and the value may be old.
// A series that had a value before is not new: it may have ended with a process that was restarted
// at the same address.
func newlyRisen(name, labels, within, by string) string {
	series, sessions := with(name, labels), metric(telemetry.Sessions)
	return fmt.Sprintf(`sum by (%[1]s) (
  (
    last_over_time(%[2]s[%[3]s])
    unless %[2]s offset %[3]s
    and count_over_time(%[2]s[%[3]s])
      < on (%[4]s) group_left max by (%[4]s) (count_over_time(%[5]s[%[3]s]))
  ) > 0
  or increase(%[2]s[%[3]s]) > 0
)`, by, series, within, perProcess, sessions)
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

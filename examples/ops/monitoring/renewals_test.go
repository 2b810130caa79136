package monitoring_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/examples/ops/monitoring"
	"github.com/fairlock/fairlock/telemetry"
)

// renewals are those of a healthy session: how much is left to the deadline right after a
// renewal and right before the next one. ok is false where the backend refuses the TTL.
type renewals func(ttl time.Duration) (most, least time.Duration, ok bool)

// onEtcd renews when a third of the trust window has passed.
func onEtcd(ttl time.Duration) (most, least time.Duration, ok bool) {
	window := ttl - max(ttl/10, time.Second)
	return window, window - window/3, true
}

// onZooKeeper renews at each heartbeat. A standalone server has no tick here. In an ensemble
// a heartbeat proves the one two before it.
func onZooKeeper(tick time.Duration) renewals {
	return func(ttl time.Duration) (most, least time.Duration, ok bool) {
		window, period := ttl-max(ttl/10, 100*time.Millisecond), max(ttl/8, tick*5/4)
		if tick == 0 {
			return window, window - period, true
		}
		return window - 2*period, window - 3*period, window-3*period >= ttl/4
	}
}

// lowest returns what histogram_quantile(0.05) is when all values are the same.
func lowest(value float64) float64 {
	below := 0.0
	for _, bound := range telemetry.Metrics()[telemetry.RenewalSlack].Buckets {
		if value <= bound {
			return below + 0.05*(bound-below)
		}
		below = bound
	}
	return below // there is no bound above it
}

// TestNoTTLMakesHealthyRenewalsLate: a quantile is interpolated between the bounds of a
// bucket, so it can be far below all values. Scrapes may come right after renewals, when
// the trust window seems to be longest.
func TestNoTTLMakesHealthyRenewalsLate(t *testing.T) {
	factor := 0.0
	for _, a := range monitoring.Alerts() {
		if a.Name == "FairlockRenewalsLate" {
			found := regexp.MustCompile(`< ([0-9.]+) \*`).FindStringSubmatch(a.Expr)
			require.Len(t, found, 2, a.Expr)
			var err error
			factor, err = strconv.ParseFloat(found[1], 64)
			require.NoError(t, err)
		}
	}
	for name, of := range map[string]renewals{
		"etcd": onEtcd, "ZooKeeper": onZooKeeper(0), "an ensemble": onZooKeeper(2 * time.Second), "a fast ensemble": onZooKeeper(200 * time.Millisecond),
	} {
		tested := 0
		for ttl := 2 * time.Second; ttl <= 10*time.Minute; ttl += 100 * time.Millisecond {
			most, least, ok := of(ttl)
			if !ok {
				continue
			}
			tested++
			for _, late := range []time.Duration{0, most / 100, most / 25} { // the network
				slack := lowest((least - late).Seconds())
				if threshold := factor * most.Seconds(); slack < threshold {
					assert.Fail(t, "the alert fires", fmt.Sprintf("on %s with a TTL of %v: %.2f s < %.2f s", name, ttl, slack, threshold))
				}
			}
		}
		assert.Greater(t, tested, 5800, name)
	}
}

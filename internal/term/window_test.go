package term

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

func TestDeadlineCountsFromTheSendTime(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name             string
		sent             driver.Instant
		ttl, margin, out time.Duration
	}{
		{"default", 0, 15 * s, 1500 * time.Millisecond, 15*s - 15*time.Millisecond - 1500*time.Millisecond},
		{"later renewal", driver.Instant(10 * s), 15 * s, 1500 * time.Millisecond, 25*s - 15*time.Millisecond - 1500*time.Millisecond},
		{"no margin", 0, 10 * s, 0, 10*s - 10*time.Millisecond},
		{"the service gives less than the margin", 0, 2 * s, 5 * s, 2*s - 2*time.Millisecond - 1500*time.Millisecond},
	} {
		assert.Equal(t, driver.Instant(c.out), deadlineOf(c.sent, c.ttl, c.margin), c.name)
	}
}

func TestTrustWindowIsNeverLongerThanTheServiceGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ttl := time.Duration(rapid.Int64Range(1e6, 60e9).Draw(t, "ttl"))
		margin := time.Duration(rapid.Int64Range(0, int64(ttl)*3/4).Draw(t, "margin"))
		var w window
		var now, newest driver.Instant
		over := false
		renewals := rapid.SliceOfN(rapid.Int64Range(0, int64(ttl)), 1, 20).Draw(t, "steps")
		for i, step := range renewals {
			now = now.Add(time.Duration(step))
			travel := time.Duration(rapid.Int64Range(0, int64(ttl)).Draw(t, "travel"))
			sent := max(0, now.Add(-travel))
			if i == 0 {
				sent = now
			}
			left := w.renew(now, sent, ttl, margin)
			if over && left > 0 {
				t.Fatal("opened again after it was over")
			}
			if left > 0 {
				newest = max(newest, sent)
				if left != w.left(now) || now.Add(left) > newest.Add(ttl-margin) {
					t.Fatalf("%s left at %d, newest renewal sent at %d", left, now, newest)
				}
			}
			over = over || left == 0
		}
	})
}

func TestTrustWindowThatIsOverStaysOver(t *testing.T) {
	var w window
	assert.Positive(t, w.renew(1, 0, 100, 10))
	assert.Positive(t, w.left(80))
	assert.Zero(t, w.left(90))
	assert.Zero(t, w.left(50), "not even if the clock went back")
	assert.Zero(t, w.renew(91, 90, 100, 10), "a late renewal opens nothing")
	assert.Zero(t, w.left(50))
}

func TestTrustWindowOpensWithTheFirstRenewal(t *testing.T) {
	var w window
	assert.Zero(t, w.left(0))
}

func TestRenewalThatTookTooLongOpensNothing(t *testing.T) {
	var w window
	assert.Zero(t, w.renew(200, 0, 100, 10))
}

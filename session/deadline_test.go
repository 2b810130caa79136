package session

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
		{"later proof", driver.Instant(10 * s), 15 * s, 1500 * time.Millisecond, 25*s - 15*time.Millisecond - 1500*time.Millisecond},
		{"no margin", 0, 10 * s, 0, 10*s - 10*time.Millisecond},
		{"the service gives less than the margin", 0, 2 * s, 5 * s, 2*s - 2*time.Millisecond - 1500*time.Millisecond},
	} {
		assert.Equal(t, driver.Instant(c.out), deadlineOf(c.sent, c.ttl, c.margin), c.name)
	}
}

func TestBeliefIsNeverLongerThanTheServiceGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ttl := time.Duration(rapid.Int64Range(1e6, 60e9).Draw(t, "ttl"))
		margin := time.Duration(rapid.Int64Range(0, int64(ttl)*3/4).Draw(t, "margin"))
		var b belief
		var now, newest driver.Instant
		over := false
		proofs := rapid.SliceOfN(rapid.Int64Range(0, int64(ttl)), 1, 20).Draw(t, "steps")
		for i, step := range proofs {
			now = now.Add(time.Duration(step))
			travel := time.Duration(rapid.Int64Range(0, int64(ttl)).Draw(t, "travel"))
			sent := max(0, now.Add(-travel))
			if i == 0 {
				sent = now
			}
			alive := b.prove(now, sent, ttl, margin)
			if over && alive {
				t.Fatal("revived after it was over")
			}
			if alive {
				newest = max(newest, sent)
				if left := b.left(now); left <= 0 || now.Add(left) > newest.Add(ttl-margin) {
					t.Fatalf("%s left at %d, newest proof sent at %d", left, now, newest)
				}
			}
			over = over || !alive
		}
	})
}

func TestBeliefIsLatched(t *testing.T) {
	var b belief
	assert.True(t, b.prove(1, 0, 100, 10))
	assert.True(t, b.alive(80))
	assert.False(t, b.alive(90))
	assert.False(t, b.alive(50), "not even if the clock went back")
	assert.False(t, b.prove(91, 90, 100, 10), "a late proof revives nothing")
	assert.Zero(t, b.left(50))
}

func TestNothingIsBelievedBeforeTheFirstProof(t *testing.T) {
	var b belief
	assert.False(t, b.alive(0))
}

func TestProofThatTravelledTooLongIsNone(t *testing.T) {
	var b belief
	assert.False(t, b.prove(200, 0, 100, 10))
}

package trial

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// TestHandoverIsJudgedWithoutTokens has a lock without tokens notify its holder too late.
func TestHandoverIsJudgedWithoutTokens(t *testing.T) {
	at := func(d time.Duration) history.Instant { return history.Instant(time.Hour + d) }
	tr := &trial{kind: find("holder-cut"), faultAt: at(0)}

	tr.judgeHandover(history.Attempt{Got: at(-time.Second), Told: at(3 * time.Second)}, history.Attempt{Got: at(2 * time.Second)})

	assert.Equal(t, map[Figure]time.Duration{
		FaultToGrant: 2 * time.Second, FaultToNotified: 3 * time.Second, NotifiedBefore: -time.Second,
	}, tr.Figures)
	if assert.Len(t, tr.Violations, 1) {
		assert.Equal(t, "L2", tr.Violations[0].Property)
	}
}

// TestHandoverToAFailedRequestIsNotJudged has the next request fail.
func TestHandoverToAFailedRequestIsNotJudged(t *testing.T) {
	tr := &trial{kind: find("holder-cut"), faultAt: 1}

	tr.judgeHandover(history.Attempt{Got: 1}, history.Attempt{Got: 2, Failed: "no"})

	assert.Empty(t, tr.Figures)
	assert.Empty(t, tr.Violations)
}

// TestHoldThatAnOperatorEndsBreaksL2Only has an operator end a hold. Its holder is never
// notified, and its release reports no loss: that does not violate exclusion.
func TestHoldThatAnOperatorEndsBreaksL2Only(t *testing.T) {
	at := func(d time.Duration) history.Instant { return history.Instant(time.Hour + d) }
	queue := history.Queue{Name: "queue", Recipe: history.Mutex}
	held := history.Attempt{
		Client: 0, Line: queue.Name, Asked: at(-200), Got: at(-100), Token: 1, Place: 1,
		Held: at(4000), Back: at(4001), Outcome: history.Released, Done: at(4002),
	}
	next := history.Attempt{
		Client: 1, Line: queue.Name, Asked: at(-50), Got: at(100), Token: 2, Place: 2,
		Held: at(5000), Back: at(5001), Outcome: history.Released, Done: at(5002),
	}
	h := &History{Lines: []history.Queue{queue}, Attempts: []history.Attempt{held, next}, Order: map[string][]history.Change{queue.Name: {
		{At: 1, Kind: history.Joined, Place: 1},
		{At: 2, Kind: history.Joined, Place: 2},
		{At: 3, Kind: history.Left, Place: 1},
		{At: 4, Kind: history.Left, Place: 2},
	}}}
	meter := stallMeter{new(metronome.Metronome)}

	found, _ := judgeHistory(h, meter, leftoverTime, held.Place, at(0))
	assert.Empty(t, found)
	found, _ = judgeHistory(h, meter, leftoverTime, 0, 0)
	assert.NotEmpty(t, found, "the same without an operator")

	tr := &trial{kind: find("holder-entry-deleted"), faultAt: at(0)}
	tr.judgeHandover(held, next)
	if assert.Len(t, tr.Violations, 1) {
		assert.Equal(t, "L2", tr.Violations[0].Property)
	}
}

// TestReleaseOfALostHoldMustReportTheLoss has Unlock of Fairlock report no loss.
func TestReleaseOfALostHoldMustReportTheLoss(t *testing.T) {
	tr := &trial{kind: find("holder-entry-deleted"), lock: Ours, faultAt: 2}

	tr.judgeHandover(history.Attempt{Got: 1, Told: 5, Back: 6, Outcome: history.Released}, history.Attempt{Got: 4})

	if assert.Len(t, tr.Violations, 1) {
		assert.Equal(t, "L2", tr.Violations[0].Property)
	}
}

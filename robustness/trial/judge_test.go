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
	queue := history.Queue{Name: "queue", Recipe: history.Mutex}
	held := history.Attempt{
		Client: 0, Queue: queue.Name, Asked: at(-200), Got: at(-100), Token: 1, Place: 1,
		Held: at(4000), Back: at(4001), Outcome: history.Released, Done: at(4002),
	}
	next := history.Attempt{
		Client: 1, Queue: queue.Name, Asked: at(-50), Got: at(100), Token: 2, Place: 2,
		Held: at(5000), Back: at(5001), Outcome: history.Released, Done: at(5002),
	}
	h := &History{Queues: []history.Queue{queue}, Attempts: []history.Attempt{held, next}, Order: map[string][]history.Change{queue.Name: {
		{At: 1, Kind: history.Joined, Place: 1},
		{At: 2, Kind: history.Joined, Place: 2},
		{At: 3, Kind: history.Left, Place: 1},
		{At: 4, Kind: history.Left, Place: 2},
	}}}
	meter := stallMeter{new(metronome.Metronome)}

	found, _ := judgeHistory(h, meter, leftoverTime, held, at(0))
	assert.Empty(t, found)
	found, _ = judgeHistory(h, meter, leftoverTime, history.Attempt{}, 0)
	assert.NotEmpty(t, found, "the same without an operator")

	// The same of a lock that has neither places nor an order.
	held.Place, held.Token, next.Place, next.Token = 0, 0, 0, 0
	h = &History{Queues: h.Queues, Attempts: []history.Attempt{held, next}}
	found, _ = judgeHistory(h, meter, leftoverTime, held, at(0))
	assert.Empty(t, found)
	found, _ = judgeHistory(h, meter, leftoverTime, history.Attempt{}, 0)
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

// margins is a service with a margin.
type margins struct {
	Service
	margin time.Duration
}

func (m margins) Margin() time.Duration { return m.margin }

// properties returns the properties that a trial has found violated.
func properties(tr *trial) []string {
	found := []string{}
	for _, v := range tr.Violations {
		found = append(found, v.Property)
	}
	return found
}

// at returns an instant d after an arbitrary one.
func at(d time.Duration) history.Instant { return history.Instant(time.Hour + d) }

// TestAHolderMustHaveItsMargin has a holder that was cut off be notified at several times
// before the next grant.
func TestAHolderMustHaveItsMargin(t *testing.T) {
	for _, c := range []struct {
		kind   string
		before time.Duration
		found  []string
	}{
		{"holder-cut", 1043 * time.Millisecond, []string{}}, // the shortest that was measured on etcd
		{"holder-cut", 700 * time.Millisecond, []string{"L2"}},
		{"holder-cut", 0, []string{"L2"}},
		{"holder-entry-deleted", 0, []string{}}, // nobody can notify it before
	} {
		tr := &trial{kind: find(c.kind), lock: Ours, svc: margins{margin: time.Second}, faultAt: at(0), meter: stallMeter{new(metronome.Metronome)}}

		tr.judgeHandover(history.Attempt{Got: at(-time.Second), Told: at(2*time.Second - c.before)}, history.Attempt{Got: at(2 * time.Second)})

		assert.Equal(t, c.found, properties(tr), "%s %s", c.kind, c.before)
	}
}

// TestACutHolderIsJudgedByTheEndOfItsEntry has the holder be notified, and the next client be
// granted, before and after the entry of the holder is gone.
func TestACutHolderIsJudgedByTheEndOfItsEntry(t *testing.T) {
	gone := at(0)
	for _, c := range []struct {
		told, next time.Duration
		found      []string
	}{
		{-1043 * time.Millisecond, time.Millisecond, []string{}}, // the shortest that was measured on etcd
		{-1043 * time.Millisecond, -6 * time.Millisecond, []string{}},
		{-1043 * time.Millisecond, -time.Second, []string{"S4"}},
		{-700 * time.Millisecond, time.Millisecond, []string{"L2"}},
		{3 * time.Second, 14 * time.Second, []string{"L2"}},      // the next client does not get to run
		{-time.Duration(gone), 14 * time.Second, []string{"L2"}}, // never
	} {
		tr := &trial{lock: Ours, svc: margins{margin: time.Second}, meter: stallMeter{new(metronome.Metronome)}}

		tr.judgeGone(history.Attempt{Told: at(c.told)}, history.Attempt{Got: at(c.next)}, gone)

		assert.Equal(t, c.found, properties(tr), "notified %s, granted %s", c.told, c.next)
	}
}

// TestAnEntryIsGoneWhenTheFirstObserverSaysSo: of a watch and the service's record, each can be
// late, or see nothing.
func TestAnEntryIsGoneWhenTheFirstObserverSaysSo(t *testing.T) {
	order := func(seen history.Instant) []history.Change {
		return []history.Change{
			{Kind: history.Joined, Place: 1, Seen: 1}, {Kind: history.Left, Place: 2, Seen: 2}, {Kind: history.Left, Place: 1, Seen: seen},
		}
	}
	for seen, want := range map[history.Instant]history.Instant{5: 5, 20: 9, 0: 9} {
		assert.Equal(t, want, goneAt(order(seen), 1, 9), "seen at %d", seen)
	}
}

// TestUnlockReportsALossAndReturnsInTime has Unlock return what it must not, after the end of
// a hold that no operator has ended, and too late.
func TestUnlockReportsALossAndReturnsInTime(t *testing.T) {
	for _, c := range []struct {
		lock  string
		a     history.Attempt
		found []string
	}{
		{Ours, history.Attempt{Told: at(1), Back: at(2), Done: at(3), Outcome: history.Released}, []string{"L2"}},
		{Ours, history.Attempt{Told: at(1), Back: at(2), Done: at(3), Outcome: history.Released, Nested: true}, []string{"L2"}},
		{Ours, history.Attempt{Told: at(1), Back: at(2), Done: at(3), Outcome: history.Lost}, []string{}},
		{Ours, history.Attempt{Told: at(3), Back: at(2), Done: at(3), Outcome: history.Released}, []string{}},
		{Ours, history.Attempt{Back: at(2), Done: at(time.Second), Outcome: history.Pending}, []string{}},
		{Ours, history.Attempt{Back: at(2), Done: at(2 * time.Second), Outcome: history.Pending}, []string{"S6"}},
		{"another", history.Attempt{Told: at(1), Back: at(2), Done: at(2 * time.Second), Outcome: history.Released}, []string{}},
	} {
		tr := &trial{Result: Result{Lock: c.lock}}
		c.a.Got = at(0)

		tr.judgeRelease(c.a, stallMeter{new(metronome.Metronome)})

		assert.Equal(t, c.found, properties(tr), "%+v", c.a)
	}
}

// TestAStallAsLongAsTheMarginExcusesALateNotice: on ZooKeeper the margin is 200 ms, and a
// stall of that length makes a correct holder learn of its loss after the next grant.
func TestAStallAsLongAsTheMarginExcusesALateNotice(t *testing.T) {
	assert.Less(t, starvedAfter, 200*time.Millisecond)
}

// breakerService is a Breaker that is asked nothing.
type breakerService struct {
	Service
	Breaker
}

// TestEntriesStayWhileNobodyCanObserveThem has all replies late, so that no client of a Breaker can
// see that a session is over. On other services the server ends it meanwhile.
func TestEntriesStayWhileNobodyCanObserveThem(t *testing.T) {
	late := find("delayed-replies")
	tr := &trial{svc: breakerService{}, kind: late, faultAt: at(0), endedAt: at(3 * time.Second)}
	assert.Equal(t, leftoverTime+3*time.Second, tr.grace())

	tr.endedAt = 0
	assert.Equal(t, leftoverTime, tr.grace(), "a delay that sessions bear")
	others := &trial{kind: late, faultAt: at(0), endedAt: at(3 * time.Second)}
	assert.Equal(t, leftoverTime, others.grace())
	cut := &trial{svc: breakerService{}, kind: find("holder-cut"), faultAt: at(0), endedAt: at(3 * time.Second)}
	assert.Equal(t, leftoverTime, cut.grace())
}

package trial

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// TestAStoryNeedsNoTokens has the holder of a lock that has none be told too late.
func TestAStoryNeedsNoTokens(t *testing.T) {
	at := func(d time.Duration) history.Instant { return history.Instant(time.Hour + d) }
	st := &stage{kind: find("holder-cut"), struck: at(0)}

	st.story(history.Attempt{Got: at(-time.Second), Told: at(3 * time.Second)}, history.Attempt{Got: at(2 * time.Second)})

	assert.Equal(t, map[Figure]time.Duration{
		StruckToGrant: 2 * time.Second, StruckToTold: 3 * time.Second, ToldBefore: -time.Second,
	}, st.Figures)
	if assert.Len(t, st.Violations, 1) {
		assert.Equal(t, "L2", st.Violations[0].Property)
	}
}

// TestAStoryNeedsHolds has the next one fail.
func TestAStoryNeedsHolds(t *testing.T) {
	st := &stage{kind: find("holder-cut"), struck: 1}

	st.story(history.Attempt{Got: 1}, history.Attempt{Got: 2, Failed: "no"})

	assert.Empty(t, st.Figures)
	assert.Empty(t, st.Violations)
}

// TestNobodyPromisesWhatAnOperatorEnds has somebody else end a hold that is never
// told, and is given back without a word: that is no matter of exclusion.
func TestNobodyPromisesWhatAnOperatorEnds(t *testing.T) {
	at := func(d time.Duration) history.Instant { return history.Instant(time.Hour + d) }
	line := history.Queue{Name: "line", Recipe: history.Mutex}
	held := history.Attempt{
		Client: 0, Line: line.Name, Asked: at(-200), Got: at(-100), Token: 1, Place: 1,
		Held: at(4000), Back: at(4001), Outcome: history.Released, Done: at(4002),
	}
	next := history.Attempt{
		Client: 1, Line: line.Name, Asked: at(-50), Got: at(100), Token: 2, Place: 2,
		Held: at(5000), Back: at(5001), Outcome: history.Released, Done: at(5002),
	}
	h := &History{Lines: []history.Queue{line}, Attempts: []history.Attempt{held, next}, Order: map[string][]history.Change{line.Name: {
		{At: 1, Kind: history.Joined, Place: 1},
		{At: 2, Kind: history.Joined, Place: 2},
		{At: 3, Kind: history.Left, Place: 1},
		{At: 4, Kind: history.Left, Place: 2},
	}}}
	beat := beat{new(metronome.Metronome)}

	found, _ := judged(h, beat, remains, held.Place, at(0))
	assert.Empty(t, found)
	found, _ = judged(h, beat, remains, 0, 0)
	assert.NotEmpty(t, found, "that nobody has ended")

	st := &stage{kind: find("holder-entry-deleted"), struck: at(0)}
	st.story(held, next)
	if assert.Len(t, st.Violations, 1) {
		assert.Equal(t, "L2", st.Violations[0].Property)
	}
}

// TestOursTellWhoGivesBackWhatIsLost has Unlock say nothing of a loss.
func TestOursTellWhoGivesBackWhatIsLost(t *testing.T) {
	st := &stage{kind: find("holder-entry-deleted"), lock: Ours, struck: 2}

	st.story(history.Attempt{Got: 1, Told: 5, Back: 6, Outcome: history.Released}, history.Attempt{Got: 4})

	if assert.Len(t, st.Violations, 1) {
		assert.Equal(t, "L2", st.Violations[0].Property)
	}
}

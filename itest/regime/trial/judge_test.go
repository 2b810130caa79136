package trial

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/itest/regime/history"
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

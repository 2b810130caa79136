package trial

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// TestNothingIsGrantedInAQuarantine has grants before and in a quarantine. Where the holder holds only just before
// the fault, a grant of before may be on its way.
func TestNothingIsGrantedInAQuarantine(t *testing.T) {
	const quarantine = 4 * time.Second
	for _, c := range []struct {
		got   time.Duration
		late  bool
		early bool
	}{
		{-time.Second, false, false},
		{promptly / 2, false, true},
		{promptly / 2, true, false},
		{2 * promptly, true, true},
		{quarantine - 1, true, true},
		{quarantine, false, false},
	} {
		b := &Break{Quarantine: quarantine, Began: func() history.Instant { return at(0) }}
		if c.late {
			b.Late = func(context.Context) error { return nil }
		}
		tr := &trial{lock: Ours, kind: b.kind(), meter: stallMeter{new(metronome.Metronome)}}
		tr.History = &History{Attempts: []history.Attempt{{Got: at(c.got)}}}

		tr.judgeBreak()

		if !c.early {
			assert.Empty(t, tr.Violations, "%v", c)
		} else if assert.Len(t, tr.Violations, 1, "%v", c) {
			assert.Equal(t, "S1", tr.Violations[0].Property)
		}
	}
}

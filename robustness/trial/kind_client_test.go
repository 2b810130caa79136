package trial

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// shrinkingQueue is a service with one queue of three entries, which are replaced by
// others at a given time.
type shrinkingQueue struct {
	Service
	gone history.Instant
	slow time.Duration // each read takes this long
	then []string      // the entries from gone on
}

func (s *shrinkingQueue) Entries(context.Context, string, string) ([]string, error) {
	at := Now()
	time.Sleep(s.slow)
	if s.gone <= at {
		return s.then, nil
	}
	return []string{"holder", "entry", "last"}, nil
}

// TestAnEntryThatLeavesLaterWasNotEnded has an entry leave at once, also where reading
// the queue is slow, and then much later.
func TestAnEntryThatLeavesLaterWasNotEnded(t *testing.T) {
	for _, c := range []struct {
		name       string
		goes, slow time.Duration
		then       []string
		hit        bool
	}{
		{"at once", 0, time.Millisecond, []string{"holder", "last"}, true},
		{"soon", promptly / 2, time.Millisecond, []string{"holder", "last"}, true},
		{"at once, read slowly", 0, 3 * promptly, []string{"holder", "last"}, true},
		{"and joins again", 0, time.Millisecond, []string{"holder", "last", "entry"}, true},
		{"and joins again, and the last one has held", 0, time.Millisecond, []string{"holder", "entry"}, true},
		{"with its session", 3 * TTL, time.Millisecond, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := &trial{svc: &shrinkingQueue{gone: Now() + history.Instant(c.goes), slow: c.slow, then: c.then}, meter: stallMeter{new(metronome.Metronome)}}

			err := tr.leavesAtOnce(t.Context(), 1, []string{"holder", "entry", "last"})

			assert.Equal(t, c.hit, err == nil, "%v", err)
		})
	}
}

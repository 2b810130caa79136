package trial

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// oneLine is a service with two entries, of which the second one goes by itself, in
// a time.
type oneLine struct {
	Service
	gone history.Instant
	slow time.Duration // each look
	then []string      // what is in line after that
}

func (s *oneLine) Entries(context.Context, string, string) ([]string, error) {
	at := Now()
	time.Sleep(s.slow)
	if s.gone <= at {
		return s.then, nil
	}
	return []string{"holder", "entry", "last"}, nil
}

// TestAnEntryThatGoesLaterWasNotEnded has an entry go at once, also where looking
// takes its time, and then much later.
func TestAnEntryThatGoesLaterWasNotEnded(t *testing.T) {
	for _, c := range []struct {
		name       string
		goes, slow time.Duration
		then       []string
		hit        bool
	}{
		{"at once", 0, time.Millisecond, []string{"holder", "last"}, true},
		{"soon", promptly / 2, time.Millisecond, []string{"holder", "last"}, true},
		{"at once, seen slowly", 0, 3 * promptly, []string{"holder", "last"}, true},
		{"and joins again", 0, time.Millisecond, []string{"holder", "last", "entry"}, true},
		{"and joins again, and the last one has held", 0, time.Millisecond, []string{"holder", "entry"}, true},
		{"with its session", 3 * TTL, time.Millisecond, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := &stage{svc: &oneLine{gone: Now() + history.Instant(c.goes), slow: c.slow, then: c.then}, beat: beat{new(metronome.Metronome)}}

			err := st.leavesAtOnce(t.Context(), 1, []string{"holder", "entry", "last"})

			assert.Equal(t, c.hit, err == nil, "%v", err)
		})
	}
}

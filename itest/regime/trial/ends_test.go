package trial

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/itest/regime/history"
)

// oneLine is a service with an entry that goes by itself, in a time.
type oneLine struct {
	Service
	gone history.Instant
	slow time.Duration // each look
}

func (s *oneLine) Entries(context.Context, string, string) ([]string, error) {
	at := Now()
	time.Sleep(s.slow)
	if s.gone <= at {
		return nil, nil
	}
	return []string{"entry"}, nil
}

// TestAnEntryThatGoesLaterWasNotEnded has an entry go at once, also where looking
// takes its time, and then much later.
func TestAnEntryThatGoesLaterWasNotEnded(t *testing.T) {
	for _, c := range []struct {
		name       string
		goes, slow time.Duration
		hit        bool
	}{
		{"at once", 0, time.Millisecond, true},
		{"soon", promptly / 2, time.Millisecond, true},
		{"at once, seen slowly", 0, 3 * promptly, true},
		{"with its session", 3 * TTL, time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			beat := newMetronome()
			beat.end()
			st := &stage{svc: &oneLine{gone: Now() + history.Instant(c.goes), slow: c.slow}, beat: beat}

			err := st.leavesAtOnce(t.Context(), 0, "entry")

			assert.Equal(t, c.hit, err == nil, "%v", err)
		})
	}
}

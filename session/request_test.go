package session

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/door"
)

// A read that is under way when a place is lost, or the request ends, may move it.
func TestLostPlacesReportNothing(t *testing.T) {
	positions := 0
	s, tm := requestOf(Hooks{Position: func(context.Context, Event) { positions++ }})
	_, q := start(t.Context(), s, door.Start{Name: "orders"})
	before := q.Joined(tm, 7, 3)
	q.Position(before, 0, 2)
	q.Rejoined(ErrLost)
	now := q.Joined(tm, 7, 3)
	q.Position(before, 0, 1)
	q.Ended(ErrClosed)
	q.Position(now, 0, 1)
	s.reports.Finish()

	assert.Equal(t, 1, positions)
}

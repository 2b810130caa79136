package session

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/engine"
)

// A read that is under way when a place is lost, or the request ends, may move it.
func TestLostPlacesReportNothing(t *testing.T) {
	positions := 0
	s := requestOf(Hooks{Position: func(context.Context, Event) { positions++ }})
	_, q := start(t.Context(), s, []engine.Request{{Name: "orders"}})
	before := q.Joined("a", 7, 3)
	q.Moved(before, 0, 2)
	q.Rejoins(ErrLost)
	now := q.Joined("a", 7, 3)
	q.Moved(before, 0, 1)
	q.failed(ErrClosed)
	q.Moved(now, 0, 1)
	s.reports.Finish()

	assert.Equal(t, 1, positions)
}

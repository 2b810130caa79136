package queue

import (
	"context"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// planted applies the failpoints of events, and reports whether the event is ignored.
func planted(w *watch, ev *driver.Event) bool {
	if failpoint.On(failpoint.LateWatch) && !w.armed && w.own == nil && (ev.Kind == driver.Gone || w.target.Kind != driver.OfEntry) {
		w.armed = true
		return true
	}
	if failpoint.On(failpoint.LostUnread) && (ev.Kind == driver.Lost || ev.Kind == driver.Armed && w.armed) {
		return true
	}
	if failpoint.On(failpoint.ProclaimEnds) && w.target.Kind == driver.OfEntry && ev.Kind == driver.Changed && ev.Marks == 0 && w.own == nil {
		ev.Kind, ev.First = driver.Gone, true
	}
	if failpoint.On(failpoint.PredecessorGone) {
		ev.First = true
	}
	return false
}

// joinInTurn joins the queues one after the other. Only failpoint JoinInTurn uses it: of two
// requests for the same queues, each can be ahead of the other in one of them.
func joinInTurn(ctx context.Context, s driver.Session, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	var all []driver.Joined
	for _, req := range reqs {
		joined, err := s.Join(ctx, req)
		if err != nil {
			return nil, err //nolint:wrapcheck // the backend's own error
		}
		all = append(all, joined...)
	}
	return all, nil
}

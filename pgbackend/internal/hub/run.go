package hub

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

// run keeps a connection until the hub is stopped. Between two connections no change is reported, so
// each watch reports Lost, and the next connection reads all states anew.
func (h *Hub) run(ctx context.Context) {
	pause := driver.Backoff{Least: 20 * time.Millisecond, Most: time.Second, Spread: true}
	var outage driver.Outage
	for ctx.Err() == nil {
		l := &link{h: h, heard: map[string]struct{}{}, rows: map[string]driver.Instant{}}
		err := l.open(ctx)
		if err == nil {
			log, lasted := outage.Over(h.Clock.Now())
			if log {
				h.Logger.InfoContext(ctx, "postgres: changes of queues are reported again", "after", lasted)
			}
			pause.Reset()
			err = l.serve(ctx)
		}
		if l.conn != nil {
			call.Hangup(l.conn) //nolint:contextcheck // it bounds itself
		}
		h.lose()
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errAgain) {
			continue
		}
		log, since := outage.Failed(h.Clock.Now())
		if log && err != nil {
			h.Logger.WarnContext(ctx, "postgres: changes of queues are not reported for now", "error", err.Error(), "since", since)
		}
		pause.Sleep(ctx, h.Clock)
	}
}

// lose reports to all watches that changes may be missing. The next connection arms them again.
func (h *Hub) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.channels {
		for w := range all {
			w.due = 0
			if w.armed {
				w.armed = false
				h.post(w, driver.Event{Kind: driver.Lost})
			}
		}
	}
	h.observed = 0
}

// endMost is the longest pause before the next end after one that has failed.
const endMost = 10 * time.Second

// ScanSights reads the answer of Observe and Sweep.
func ScanSights(r pgx.BatchResults) ([]observed.Sight, error) {
	rows, err := r.Query()
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s observed.Sight, err error) {
		var id, ttl int64
		err = row.Scan(&id, &s.Version, &ttl)
		s.ID = layout.SessionID(id)
		s.TTL = time.Duration(ttl) * time.Millisecond
		return s, err
	})
}

// observe takes in the sessions of an answer, and ends those that are over, in a goroutine of its own:
// an end waits for the joins of the session that are under way. While it runs, and for a while after
// one that has failed, the next looks go on counting, and end nothing. After it a look follows at once,
// which shows whether the session is gone, and lets its entries be reported where a notice was lost.
func (h *Hub) observe(received driver.Instant, sights []observed.Sight) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.observed = received
	h.leases.Saw(received, slices.DeleteFunc(sights, func(s observed.Sight) bool { return h.Owns(s.ID) }))
	due := h.leases.Due(received)
	if len(due) == 0 || h.ending || received < h.endFrom || h.ctx.Err() != nil {
		return
	}
	h.ending = true
	h.done.Go(func() {
		failed := false
		for _, s := range due {
			failed = h.End(h.ctx, s) != nil || failed
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ending = false
		if failed {
			h.endFrom = h.Clock.Now().Add(h.endPause.Next(h.Clock))
		} else {
			h.endPause.Reset()
		}
		h.observed = 0 // look again
		h.wake()
	})
}

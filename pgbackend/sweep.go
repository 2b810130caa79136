package pgbackend

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/hub"
	"github.com/fairlock/fairlock/session/driver"
)

// A waiter ends the sessions that it waits for, see package hub. What is left are sessions without
// entries, and entries in queues that no client watches.

// sweepTime is how often the sessions of the root are looked at that no client waits for.
const sweepTime = time.Minute

// sweep ends the sessions of the root that are over and that no client waits for, so that a process
// that was killed leaves nothing.
func sweep(ctx context.Context, s *pgSession) {
	var leases observed.Leases
	owns := s.backend.owns
	send := s.backend.sender(ctx, s.backend.calls, nil)
	second := false
	for wait := sweepTime / 2; driver.Sleep(ctx, s.backend.clock, wait); {
		wait = sweepTime/2 + driver.Jitter(s.backend.clock, sweepTime)
		var all []observed.Sight
		_, err := send.Do(ctx, call.Request{
			Queue: func(b *pgx.Batch, _ int) {
				b.Queue(s.texts.Sweep, s.backend.layout.Root)
				b.Queue(s.texts.SweepWatchers)
				b.Queue(s.texts.SweepDone)
			},
			Scan: func(r pgx.BatchResults) (err error) {
				all, err = hub.ScanSights(r)
				if err == nil {
					err = exec(r, 2)
				}
				return err
			},
		})
		if err != nil {
			continue // the next turn tries again
		}
		now := s.backend.clock.Now()
		leases.Saw(now, slices.DeleteFunc(all, func(s observed.Sight) bool { return owns(s.ID) }))
		for _, due := range leases.Due(now) {
			_ = s.ends.end(ctx, due) // it logs, and the next turn shows whether the session is there
		}
		// Each second look comes when what the first one has shown can be over.
		left, seen := leases.Next(now)
		second = !second && seen
		if second {
			wait = min(wait, max(left, time.Second))
		}
	}
}

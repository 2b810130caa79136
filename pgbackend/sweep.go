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
	var leases, watchers observed.Leases
	owns := s.backend.owns
	send := s.backend.sender(ctx, s.backend.calls, nil)
	second := false
	for wait := sweepTime / 2; driver.Sleep(ctx, s.backend.clock, wait); {
		wait = sweepTime/2 + driver.Jitter(s.backend.clock, sweepTime)
		var all, watched []observed.Sight
		_, err := send.Do(ctx, call.Request{
			Queue: func(b *pgx.Batch, _ int) {
				b.Queue(s.texts.Sweep, s.backend.layout.Root)
				b.Queue(s.texts.SweepWatchers)
				b.Queue(s.texts.SweepDone)
			},
			Scan: func(r pgx.BatchResults) (err error) {
				all, err = hub.ScanSights(r)
				if err == nil {
					watched, err = scanWatchers(r)
				}
				if err == nil {
					err = exec(r, 1)
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
		watchers.Saw(now, watched)
		endWatchers(ctx, s, send, watchers.Due(now))
		// Each second look comes when what the first one has shown can be over.
		left, seen := leases.Next(now)
		second = !second && seen
		if second {
			wait = min(wait, max(left, time.Second))
		}
	}
}

// watcherTime is for how long a row in table watcher was not renewed that is removed. It is counted
// here and not by the clock of the server: a client that watches would not be notified any more.
const watcherTime = time.Minute

// scanWatchers reads the answer of SweepWatchers.
func scanWatchers(r pgx.BatchResults) ([]observed.Sight, error) {
	rows, err := r.Query()
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (observed.Sight, error) {
		s := observed.Sight{TTL: watcherTime}
		err := row.Scan(&s.ID, &s.Version)
		return s, err
	})
}

// endWatchers removes the rows of queues that no client watches any more.
func endWatchers(ctx context.Context, s *pgSession, send *call.Sender, due []observed.Sight) {
	if len(due) == 0 {
		return
	}
	ctx, stop := driver.WithTimeout(ctx, s.backend.clock, endTime)
	defer stop()
	_, _ = send.Do(ctx, call.Request{ // the next turn shows what is left
		Queue: func(b *pgx.Batch, _ int) {
			for _, w := range due {
				b.Queue(s.texts.EndWatcher, w.ID, w.Version)
			}
		},
		Scan: func(r pgx.BatchResults) error { return exec(r, len(due)) },
	})
}

package hub

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlock/fairlock/pgbackend/internal/call"
)

// note makes rows in table watcher, under the locks of the queues, and reports whether they are
// there. A login that may only read has its watches read more often instead.
func (l *link) note(ctx context.Context, queues []string) (bool, error) {
	if len(queues) == 0 {
		return true, nil
	}
	keys := make([]int64, len(queues))
	for i, q := range queues {
		keys[i] = l.h.Layout.Lock(q)
	}
	slices.Sort(keys)
	begun := l.h.Clock.Now()
	err := call.Batch(ctx, l.conn, false, func(b *pgx.Batch) {
		b.Queue(l.h.Texts.Lock, keys)
		b.Queue(l.h.Texts.Watcher, queues)
	}, func(r pgx.BatchResults) error {
		if _, err := r.Exec(); err != nil {
			return err
		}
		_, err := r.Exec()
		return err
	})
	var server *pgconn.PgError
	switch {
	case err == nil:
		for _, q := range queues {
			l.rows[q] = begun
		}
		return true, nil
	case errors.As(err, &server) && (server.Code == "42501" || server.Code == "25006"): // no right; read-only
		l.blind = true
		return true, nil
	case errors.As(err, &server) && !l.conn.IsClosed():
		l.later = l.h.Clock.Now().Add(retry) // a lock was not free for a while, or the disk is full
		return false, nil
	}
	return false, err
}

package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/session"
)

// openWorker is the client of a process that package worker has started. Its server is a URL, and
// its root that of the queues in the schema of the same name, which has table written too.
func openWorker(ctx context.Context, j worker.Job) (*worker.Client, error) {
	pool, err := pgxpool.New(ctx, j.Servers[0])
	if err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	s, err := pgbackend.Open(ctx, pool, &pgbackend.Options{Schema: j.Root, Root: j.Root, Session: session.Options{TTL: j.TTL}})
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return &worker.Client{
		Session: s, Close: func() error { pool.Close(); return nil },
		Guard: func(h *session.Hold) worker.Write {
			query, args := pgbackend.Guard(h)
			return func(ctx context.Context, key, value string) (bool, error) {
				return guarded(ctx, pool, query, args, key, value)
			}
		},
	}, nil
}

var errNotHeld = errors.New("not held")

// guarded writes a row if the guard holds, and reports whether it did.
func guarded(ctx context.Context, pool *pgxpool.Pool, query string, args []any, key, value string) (bool, error) {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var held bool
		if err := tx.QueryRow(ctx, query, args...).Scan(&held); err != nil {
			return fmt.Errorf("guard: %w", err)
		}
		if !held {
			return errNotHeld
		}
		_, err := tx.Exec(ctx, "update written set value = $2, times = times + 1 where key = $1", key, value)
		return err
	})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errNotHeld):
		return false, nil
	}
	return false, fmt.Errorf("guarded write: %w", err)
}

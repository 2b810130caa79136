package pgbackend

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session"
)

// Schema returns the statements that make the tables in a schema ("" means DefaultSchema), for a
// person to read. Apply runs the same ones, and one more, which declares a store that it has made
// ready for use at once.
func Schema(schema string, maxTTL time.Duration) (string, error) {
	l, maxTTL, err := tables(schema, maxTTL)
	if err != nil {
		return "", err
	}
	all := append(l.DDL(maxTTL), "-- only for tables that were made just now:\n"+l.Fresh(maxTTL))
	return strings.Join(all, ";\n\n") + ";\n", nil
}

func tables(schema string, maxTTL time.Duration) (layout.Layout, time.Duration, error) {
	if schema == "" {
		schema = DefaultSchema
	}
	if maxTTL == 0 {
		maxTTL = DefaultMaxTTL
	}
	err := checkSchema(schema)
	if err == nil && maxTTL < minTTL {
		err = fmt.Errorf("%w: the greatest TTL %s is less than %s", session.ErrInvalidOptions, maxTTL, minTTL)
	}
	if err != nil {
		return layout.Layout{}, 0, fmt.Errorf("pgbackend: %w", err)
	}
	return layout.Layout{Schema: schema}, maxTTL, nil
}

// Apply makes the tables in a schema ("" means DefaultSchema) in one transaction. It can be run
// again, also by two programs at once: then it raises the greatest TTL of a session to maxTTL, if
// that is more, and does nothing else. 0 means DefaultMaxTTL.
//
// The greatest TTL is also for how long nothing is granted after a failover. Programs learn of it
// when they open a session; raise it before the first of them uses the longer TTL.
//
// Tables that Apply has made can be used at once. So do not drop the tables and make them again
// while a program may hold a lock: it learns of it by its next renewal only. To start over, stop
// all programs, or wait for the greatest TTL.
func Apply(ctx context.Context, conn *pgx.Conn, schema string, maxTTL time.Duration) error {
	l, maxTTL, err := tables(schema, maxTTL)
	if err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return call.Explain(fmt.Errorf("pgbackend: make the tables: %w", err), "")
	}
	defer tx.Rollback(ctx) //nolint:errcheck // after a commit it does nothing
	if err := apply(ctx, tx, l, maxTTL); err != nil {
		return call.Explain(fmt.Errorf("pgbackend: make the tables in schema %q: %w", l.Schema, err), "")
	}
	if err := tx.Commit(ctx); err != nil {
		return call.Explain(fmt.Errorf("pgbackend: make the tables: %w", err), "")
	}
	return nil
}

func apply(ctx context.Context, tx pgx.Tx, l layout.Layout, maxTTL time.Duration) error {
	run := func(sql string, args ...any) error {
		_, err := tx.Exec(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
		return err
	}
	// "if not exists" does not keep two programs from colliding; the lock does.
	if err := run(`select pg_advisory_xact_lock($1)`, l.Lock("schema")); err != nil {
		return err
	}
	var there bool
	row := tx.QueryRow(ctx, `select to_regclass($1) is not null`, pgx.QueryExecModeExec, l.Table("meta"))
	if err := row.Scan(&there); err != nil {
		return err
	}
	if there {
		var of *int
		row := tx.QueryRow(ctx, `select max(layout) from `+l.Table("meta"), pgx.QueryExecModeExec)
		if err := row.Scan(&of); err != nil {
			return err
		}
		if of != nil && *of > layout.Version {
			return fmt.Errorf("%w: the tables are of version %d, and this program knows version %d: update the program", session.ErrRefused, *of, layout.Version)
		}
		if of != nil && *of != layout.Version {
			return fmt.Errorf("%w: the tables are of version %d, and this program knows version %d", session.ErrRefused, *of, layout.Version)
		}
		if err := run(l.Complete()); err != nil {
			return err
		}
		return run(l.Raise(maxTTL))
	}
	for _, sql := range append(l.DDL(maxTTL), l.Fresh(maxTTL)) {
		if err := run(sql); err != nil {
			return err
		}
	}
	return nil
}

package sqlfence

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

// SQLTx is a transaction of database/sql: *sql.Tx, or a type around it. A *sql.DB is none: the check
// and the access must be in one transaction.
type SQLTx interface {
	// QueryContext and ExecContext are those of *sql.Tx.
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) // see QueryContext

	// Commit is what a *sql.DB does not have. It is not called.
	Commit() error
}

// PgxTx is a transaction of pgx, pgx.Tx, without importing it.
type PgxTx[R PgxRows] interface {
	// Query is that of pgx.Tx.
	Query(ctx context.Context, query string, args ...any) (R, error)

	// Commit is what a pool does not have. It is not called.
	Commit(ctx context.Context) error
}

// PgxRows is pgx.Rows without importing it.
type PgxRows interface {
	Next() bool             // as of pgx.Rows
	Scan(dest ...any) error // as of pgx.Rows
	Err() error             // as of pgx.Rows
	Close()                 // as of pgx.Rows
}

// Tx is a transaction of the caller, made by In or InPgx. It is as safe for concurrent use as the
// transaction is.
type Tx struct {
	dialect Dialect
	tx      SQLTx // nil for pgx

	// query runs a query, and calls row for each row of its result.
	query func(ctx context.Context, query string, args []any, row func(scan scanner) error) error
}

type scanner func(dest ...any) error

// In returns a transaction of database/sql. It sends nothing and cannot fail; the first call
// returns the error for an unknown dialect.
func In(tx SQLTx, d Dialect) Tx {
	return Tx{dialect: d, tx: tx, query: func(ctx context.Context, query string, args []any, row func(scan scanner) error) error {
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // Err has what went wrong
		for rows.Next() {
			if err := row(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	}}
}

// InPgx is In for a transaction of pgx, in PostgreSQL.
func InPgx[R PgxRows](tx PgxTx[R]) Tx {
	return Tx{dialect: PostgreSQL, query: func(ctx context.Context, query string, args []any, row func(scan scanner) error) error {
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := row(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	}}
}

// touch runs the statement for n accesses, and returns the marks by name and part.
func (t Tx) touch(ctx context.Context, n int, args []any) (map[[2]string]fence.Marks, error) {
	if err := t.dialect.known(); err != nil {
		return nil, err
	}
	query := t.dialect.insertion(n)
	if t.dialect == MySQL {
		if _, err := t.tx.ExecContext(ctx, query, args...); err != nil {
			return nil, err
		}
		query = fmt.Sprintf(selectMySQL, t.dialect.tuples(n, "", ""))
		var names []any
		for i := 0; i < len(args); i += 4 {
			names = append(names, args[i], args[i+1])
		}
		args = names
	}
	seen := map[[2]string]fence.Marks{}
	err := t.query(ctx, query, args, func(scan scanner) error {
		var name, part string
		var exclusive, shared int64
		err := scan(&name, &part, &exclusive, &shared)
		seen[[2]string{name, part}] = fence.Marks{Exclusive: session.Token(exclusive), Shared: session.Token(shared)}
		return err
	})
	return seen, err
}

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fairlock/fairlock/fence/sqlfence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/session"
)

// kit is a way to use the package: a driver, a form of the marks, and an isolation level. Its text
// is what the address of a store begins with.
type kit struct {
	driver    string // of database/sql, or "native" for pgx
	form      string // "marks", the table; "row", a column; or "condition", the same in the caller's statement
	isolation string // "" is the default of the store
}

func (k kit) String() string { return k.driver + "/" + k.form + "/" + k.isolation }

// address is that of a store for fencetest.
func (k kit) address(dsn string) string { return k.String() + " " + dsn }

func (k kit) dialect() sqlfence.Dialect {
	switch k.driver {
	case "mysql":
		if k.isolation == "old" {
			return sqlfence.MySQL
		}
		return sqlfence.MariaDB
	case "sqlite":
		return sqlfence.SQLite
	}
	return sqlfence.PostgreSQL
}

func (k kit) options() *sql.TxOptions {
	switch k.isolation {
	case "committed":
		return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	case "repeatable":
		return &sql.TxOptions{Isolation: sql.LevelRepeatableRead}
	}
	return nil
}

// open is the Opener of all tests here.
func open(ctx context.Context, address string, kind fencetest.Kind) (fencetest.Client, error) {
	name, dsn, _ := strings.Cut(address, " ")
	parts := strings.Split(name, "/")
	c := client{kit: kit{parts[0], parts[1], parts[2]}, checks: kind != fencetest.Plain}
	var err error
	if c.driver == "native" {
		c.pool, err = pgxpool.New(ctx, dsn)
	} else {
		c.db, err = sql.Open(c.driver, dsn)
	}
	return c, err
}

// client reads and writes the table data, each time in a transaction of its own.
type client struct {
	kit
	checks bool
	db     *sql.DB
	pool   *pgxpool.Pool
}

// tx is a transaction of either client.
type tx struct {
	fence sqlfence.Tx
	value func(ctx context.Context, query string, args ...any) (string, error)
	exec  func(ctx context.Context, query string, args ...any) (affected int64, err error)
}

func (c client) Read(ctx context.Context, resource string, t session.Token) (value string, err error) {
	err = c.retried(ctx, func(tx tx) error {
		if err := c.touch(ctx, tx, resource, t); err != nil {
			return err
		}
		value, err = tx.value(ctx, c.query("SELECT value FROM data WHERE name = $1"), resource)
		return err
	})
	return value, err
}

func (c client) Write(ctx context.Context, resource string, t session.Token, value string) error {
	return c.retried(ctx, func(tx tx) error {
		if c.form == "condition" && c.checks {
			row := row(resource, t)
			n, err := tx.exec(ctx, c.query("UPDATE data SET value = $1, token = $2 WHERE name = $3 AND token <= $4"), value, int64(t), resource, int64(t))
			if err != nil {
				return err
			}
			return tx.fence.CheckRow(ctx, row, n)
		}
		if err := c.touch(ctx, tx, resource, t); err != nil {
			return err
		}
		_, err := tx.exec(ctx, c.query("UPDATE data SET value = $1 WHERE name = $2"), value, resource)
		return err
	})
}

func row(resource string, t session.Token) sqlfence.Row {
	return sqlfence.Row{Table: "data", Key: "name", Column: "token", ID: resource, Token: t}
}

// touch shows a token; a resource of the loads begins with its row.
func (c client) touch(ctx context.Context, tx tx, resource string, t session.Token) error {
	begin := "INSERT INTO data (name, value) VALUES ($1, '') ON CONFLICT (name) DO NOTHING"
	if c.driver == "mysql" {
		begin = "INSERT IGNORE INTO data (name, value) VALUES (?, '')"
	}
	if c.form == "marks" && c.checks {
		err := tx.fence.Touch(ctx, sqlfence.Access{Name: resource, Token: t})
		if err != nil {
			return err
		}
	}
	if _, err := tx.exec(ctx, c.query(begin), resource); err != nil {
		return err
	}
	if c.form != "marks" && c.checks {
		return tx.fence.TouchRow(ctx, row(resource, t))
	}
	return nil
}

// query returns a query with the parameters of the dialect.
func (c client) query(q string) string {
	if c.driver == "native" || c.driver == "pgx" {
		return q
	}
	for i := range 4 {
		q = strings.Replace(q, fmt.Sprintf("$%d", i+1), "?", 1)
	}
	return q
}

// retried runs work in a transaction, again while the store asks for that.
func (c client) retried(ctx context.Context, work func(tx) error) error {
	for {
		err := c.once(ctx, work)
		if !again(err) {
			return err
		}
	}
}

// again reports whether an error means that the transaction was rolled back for the sake of another.
func again(err error) bool {
	var pg *pgconn.PgError
	var my *mysql.MySQLError
	var lite *sqlite.Error
	switch {
	case errors.As(err, &pg):
		return pg.Code == "40001" || pg.Code == "40P01"
	case errors.As(err, &my):
		return my.Number == 1213 || my.Number == 1020
	case errors.As(err, &lite):
		return lite.Code()&0xff == sqlite3.SQLITE_BUSY
	}
	return false
}

func (c client) once(ctx context.Context, work func(tx) error) error {
	if c.pool != nil {
		opts := pgx.TxOptions{}
		if c.isolation == "repeatable" {
			opts.IsoLevel = pgx.RepeatableRead
		}
		return pgx.BeginTxFunc(ctx, c.pool, opts, func(t pgx.Tx) error { return work(native(t)) })
	}
	t, err := c.db.BeginTx(ctx, c.options())
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback() }() // after a Commit it does nothing
	if err := work(standard(t, c.dialect())); err != nil {
		return err
	}
	return t.Commit()
}

func standard(t *sql.Tx, d sqlfence.Dialect) tx {
	return tx{
		fence: sqlfence.In(t, d),
		value: func(ctx context.Context, query string, args ...any) (value string, err error) {
			err = t.QueryRowContext(ctx, query, args...).Scan(&value)
			return value, err
		},
		exec: func(ctx context.Context, query string, args ...any) (int64, error) {
			res, err := t.ExecContext(ctx, query, args...)
			if err != nil {
				return 0, err
			}
			return res.RowsAffected()
		},
	}
}

func native(t pgx.Tx) tx {
	return tx{
		fence: sqlfence.InPgx(t),
		value: func(ctx context.Context, query string, args ...any) (value string, err error) {
			err = t.QueryRow(ctx, query, args...).Scan(&value)
			return value, err
		},
		exec: func(ctx context.Context, query string, args ...any) (int64, error) {
			res, err := t.Exec(ctx, query, args...)
			return res.RowsAffected(), err
		},
	}
}

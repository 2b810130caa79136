package sqllocks

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/fairlock/fairlock/robustness/designs/lock"
)

// ForUpdate is a row that a transaction locks, by select … for update, for as long as the program works. Every
// holder and every waiter has a connection of the pool. It is what the manuals of the databases offer.
type ForUpdate struct{ *DB }

// Lock implements lock.Locker.
func (l *ForUpdate) Lock(ctx context.Context, name string) (lock.Hold, error) {
	if err := l.makeRow(ctx, name); err != nil {
		return nil, err
	}
	tx, err := l.BeginTx(context.WithoutCancel(ctx), nil) // the transaction outlives the call
	if err != nil {
		return nil, err
	}
	var locked string
	if err := tx.QueryRowContext(ctx, l.d.text("select name from designs.named where name = $1 for update"), name).Scan(&locked); err != nil {
		_ = tx.Rollback() // the error is the one of the statement
		return nil, err
	}
	return forUpdateHold{tx}, nil
}

// makeRow makes the row if it is not there. It looks first, because on MariaDB an insert waits for the holder.
func (l *ForUpdate) makeRow(ctx context.Context, name string) error {
	var there int
	err := l.QueryRowContext(ctx, l.d.text("select count(*) from designs.named where name = $1"), name).Scan(&there)
	if err == nil && there == 0 {
		_, err = l.insert(ctx, "designs.named (name) values ($1)", name)
	}
	return err
}

type forUpdateHold struct{ tx *sql.Tx }

// Unlock implements lock.Hold.
func (h forUpdateHold) Unlock(ctx context.Context) error {
	return inTime(ctx, h.tx.Commit)
}

// inTime calls a function of database/sql that takes no context, and does not wait for longer than ctx.
func inTime(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }() // ends with the connection
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Advisory is an advisory lock of the database, by name: pg_advisory_lock, and GET_LOCK of MariaDB. It belongs to
// a connection, which the holder keeps out of the pool until it has released. (The peer pg_advisory_lock of
// robustness/onpg opens a connection for each lock, and asks on it now and then whether it still answers.)
type Advisory struct{ *DB }

// Lock implements lock.Locker.
func (l *Advisory) Lock(ctx context.Context, name string) (lock.Hold, error) {
	conn, err := l.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, l.d.text(l.d.advise), name); err != nil {
		return nil, drop(conn, err)
	}
	return &advisoryHold{conn, l.d.text(l.d.release), name}, nil
}

type advisoryHold struct {
	conn          *sql.Conn
	release, name string
}

// Unlock implements lock.Hold.
func (h *advisoryHold) Unlock(ctx context.Context) error {
	var was sql.NullBool
	if err := h.conn.QueryRowContext(ctx, h.release, h.name).Scan(&was); err != nil {
		return drop(h.conn, err)
	}
	return lostIf(!was.Bool, h.conn.Close())
}

// drop closes a connection that may have a lock, and not only gives it back to the pool.
func drop(conn *sql.Conn, why error) error {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // it may be broken already
	_ = conn.Close()
	return why
}

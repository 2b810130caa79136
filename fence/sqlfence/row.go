package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

// ErrNoRow means that there is no row with that key. No token was compared.
var ErrNoRow = errors.New("there is no such row")

// Row is a row of the caller's own table, one of whose columns has the highest token that the row
// has seen. The column is BIGINT NOT NULL DEFAULT 0. A row has one lock, and its holds are
// exclusive: readers that share a lock need the table of the marks.
type Row struct {
	// Table, Key and Column are the names of the table, of its key, and of the column of the
	// token, as SQL has them. They become part of statements, so they must not come from outside.
	Table, Key, Column string

	// ID is the key of the row.
	ID any

	// Token is that of the hold. 0 means the token of the hold that the context comes from.
	Token session.Token
}

// TouchRow is Touch for a row with a column of its own: it records the token, or returns a
// *StaleError, or ErrNoRow. It takes one request, and locks the row until the transaction ends.
// Several rows are touched in one order by all programs, that of their keys for example.
func (t Tx) TouchRow(ctx context.Context, r Row) error {
	token, err := r.token(ctx)
	if err != nil {
		return err
	}
	if err := t.dialect.known(); err != nil {
		return err
	}
	seen, err := t.raise(ctx, r, token)
	if err != nil {
		return r.failed(err)
	}
	return r.judge(token, seen)
}

// raise raises the token of the row, and returns the one that it has then.
func (t Tx) raise(ctx context.Context, r Row, token session.Token) (session.Token, error) {
	const higher = "CASE WHEN %[2]s > %[4]s THEN %[2]s ELSE %[4]s END"
	const update = "UPDATE %[1]s SET %[2]s = " + higher + " WHERE %[3]s = %[5]s RETURNING %[2]s"
	// The answer to an UPDATE of MySQL has one number of the statement's choice in it.
	const updateMySQL = "UPDATE %[1]s SET %[2]s = LAST_INSERT_ID(" + higher + ") WHERE %[3]s = %[5]s"
	d := t.dialect
	if d == PostgreSQL { // the numbers of parameters may repeat
		return t.one(ctx, fmt.Sprintf(update, r.Table, r.Column, r.Key, "$1::bigint", "$2"), int64(token), r.ID)
	}
	if d == SQLite {
		return t.one(ctx, fmt.Sprintf(update, r.Table, r.Column, r.Key, "?1", "?2"), int64(token), r.ID)
	}
	res, err := t.tx.ExecContext(ctx, fmt.Sprintf(updateMySQL, r.Table, r.Column, r.Key, "?", "?"), int64(token), int64(token), r.ID)
	if err != nil {
		return 0, err
	}
	seen, err := res.LastInsertId()
	if err == nil && seen == 0 {
		err = ErrNoRow
	}
	return session.Token(seen), err
}

// CheckRow judges a statement of the caller's that has the token in it, so that the check takes no
// request of its own:
//
//	UPDATE account SET balance = $2, token = $3 WHERE id = $1 AND token <= $3
//
// affected is the number of rows that the statement has changed. If that is 0, CheckRow reads why. It
// returns a *StaleError or ErrNoRow; nil if the row has this token: then the statement has changed
// nothing, which MySQL does not count, or another condition of it did not match; and another error
// if the token is not outbid and was not recorded either.
func (t Tx) CheckRow(ctx context.Context, r Row, affected int64) error {
	token, err := r.token(ctx)
	if err != nil {
		return err
	}
	if err := t.dialect.known(); err != nil {
		return err
	}
	if affected > 0 {
		return nil
	}
	lock := " FOR UPDATE" // not the snapshot of the transaction, which may be older than the row
	if t.dialect == SQLite {
		lock = ""
	}
	seen, err := t.one(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s = %s%s", r.Column, r.Table, r.Key, t.dialect.parameter(1), lock), r.ID)
	if err == nil && seen < token {
		err = fmt.Errorf("the statement has changed no row, although token %d is not outbid: touch the row before", token)
	}
	if err != nil {
		return r.failed(err)
	}
	return r.judge(token, seen)
}

// one runs a query for a token, and returns ErrNoRow if its result is empty.
func (t Tx) one(ctx context.Context, query string, args ...any) (session.Token, error) {
	var seen sql.NullInt64
	found := false
	err := t.query(ctx, query, args, func(scan scanner) error {
		found = true
		return scan(&seen)
	})
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, ErrNoRow
	case !seen.Valid:
		return 0, errors.New("its token is NULL: make the column NOT NULL DEFAULT 0")
	}
	return session.Token(seen.Int64), nil
}

// token returns the token to show.
func (r Row) token(ctx context.Context) (session.Token, error) {
	token, mode := r.Token, session.Exclusive
	if token == 0 {
		h, ok := session.HoldFrom(ctx)
		if !ok {
			return 0, fmt.Errorf("sqlfence: %w", ErrNoHold)
		}
		token, mode = h.Token(), h.Mode()
	}
	if mode != session.Exclusive {
		return 0, fmt.Errorf("sqlfence: %q: a hold of the mode %q has no place in one column: use Touch", r.resource(), mode)
	}
	_, err := fence.Marks{}.Touch(token, mode)
	if err != nil {
		return 0, fmt.Errorf("sqlfence: %q: %w", r.resource(), err)
	}
	return token, nil
}

// judge compares a token with the one that the row has after it was shown.
func (r Row) judge(token, seen session.Token) error {
	if seen < token {
		return fmt.Errorf("sqlfence: %q: the column %s has kept %d of token %d: make it BIGINT", r.resource(), r.Column, seen, token)
	}
	_, err := fence.Marks{Exclusive: seen}.Touch(token, session.Exclusive)
	if err != nil {
		return refused(r.resource(), err)
	}
	return nil
}

func (r Row) failed(err error) error { return fmt.Errorf("sqlfence: %q: %w", r.resource(), err) }

// resource returns the row for people.
func (r Row) resource() string {
	return strings.Join([]string{r.Table, r.Key, fmt.Sprint(r.ID)}, " ")
}

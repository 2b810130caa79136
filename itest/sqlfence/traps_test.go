package sqlfence

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/sqlfence"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session"
)

// afterAnother lets a transaction wait for another one in Touch: the other one has touched the mark,
// adds one, and commits while the first waits. It returns what the first reads then, and its error.
// before is what the first does before Touch.
func afterAnother(t *testing.T, c client, before func(ctx context.Context, tx tx) error) (value string, err error) {
	t.Helper()
	ctx := hang.Context(t)
	c.insert(t, "INSERT INTO data (name, value) VALUES ('n', 'old')")
	var first sync.WaitGroup
	began := make(chan struct{})
	require.NoError(t, c.once(ctx, func(other tx) error {
		if err := other.fence.Touch(ctx, sqlfence.Access{Name: "n", Token: 5}); err != nil {
			return err
		}
		if _, err := other.exec(ctx, "UPDATE data SET value = 'new' WHERE name = 'n'"); err != nil {
			return err
		}
		first.Go(func() {
			err = c.once(ctx, func(tx tx) error {
				err := before(ctx, tx)
				close(began)
				if err != nil {
					return err
				}
				if err := tx.fence.Touch(ctx, sqlfence.Access{Name: "n", Token: 6}); err != nil {
					return err
				}
				value, err = tx.value(ctx, "SELECT value FROM data WHERE name = 'n'")
				return err
			})
		})
		<-began
		return nil
	}))
	first.Wait()
	return value, err
}

// TestAfterTouchATransactionReadsWhatWasCommitted, or gets an error that asks for another attempt.
func TestAfterTouchATransactionReadsWhatWasCommitted(t *testing.T) {
	for _, k := range []kit{
		{"native", "marks", "committed"},
		{"native", "marks", "repeatable"},
		{"mysql", "marks", "committed"},
		{"mysql", "marks", "repeatable"},
		{"mysql", "marks", "old"},
	} {
		t.Run(k.String(), func(t *testing.T) {
			value, err := afterAnother(t, k.opened(t), func(context.Context, tx) error { return nil })
			if err != nil {
				require.Equal(t, "repeatable", k.isolation)
				require.True(t, again(err), "%v", err)
				return
			}
			assert.Equal(t, "new", value)
		})
	}
}

// TestWhatWasReadBeforeTouchCanBeOld: this is why Touch is the first statement. The transaction of
// MariaDB reads the snapshot of its first read to its end; PostgreSQL refuses to go on with it.
func TestWhatWasReadBeforeTouchCanBeOld(t *testing.T) {
	read := func(ctx context.Context, tx tx) error {
		_, err := tx.value(ctx, "SELECT value FROM data WHERE name = 'n'")
		return err
	}
	value, err := afterAnother(t, kit{"mysql", "marks", "repeatable"}.opened(t), read)
	require.NoError(t, err)
	assert.Equal(t, "old", value)

	_, err = afterAnother(t, kit{"native", "marks", "repeatable"}.opened(t), read)
	require.True(t, again(err), "%v", err)
}

// TestSeveralMarksAreLockedInOneOrder: without it these transactions would deadlock.
func TestSeveralMarksAreLockedInOneOrder(t *testing.T) {
	eachDialect(t, func(t *testing.T, c client) {
		ctx := hang.Context(t)
		require.NoError(t, c.touched(ctx, sqlfence.Access{Name: "a", Token: 1}, sqlfence.Access{Name: "b", Token: 1}, sqlfence.Access{Name: "c", Token: 1}))
		orders := [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c"}, {"c", "a", "b"}}
		var all sync.WaitGroup
		for _, names := range orders {
			all.Go(func() {
				for range 25 {
					var accesses []sqlfence.Access
					for _, name := range names {
						accesses = append(accesses, sqlfence.Access{Name: name, Token: 1, Mode: session.Exclusive})
					}
					assert.NoError(t, c.touched(ctx, accesses...))
				}
			})
		}
		all.Wait()
	})
}

// TestARefusalSeesPastTheSnapshot: a transaction that has read too early is refused all the same,
// with the token that is there now.
func TestARefusalSeesPastTheSnapshot(t *testing.T) {
	for _, k := range []kit{{"mysql", "marks", ""}, {"mysql", "marks", "old"}} {
		t.Run(k.String(), func(t *testing.T) {
			c, ctx := k.opened(t), hang.Context(t)
			c.insert(t, "INSERT INTO data (name, value) VALUES ('n', 'old')")
			require.NoError(t, c.touched(ctx, sqlfence.Access{Name: "n", Token: 4}))
			read := func(tx tx, newer session.Token) {
				_, err := tx.value(ctx, "SELECT value FROM data WHERE name = 'n'")
				require.NoError(t, err)
				_, err = tx.value(ctx, "SELECT exclusive_token FROM fairlock_marks")
				require.NoError(t, err)
				require.NoError(t, c.touched(ctx, sqlfence.Access{Name: "n", Token: newer}))
				require.NoError(t, c.rowTouched(t, row("n", newer)))
			}
			var stale *fence.StaleError

			err := c.once(ctx, func(tx tx) error {
				read(tx, 9)
				return tx.fence.Touch(ctx, sqlfence.Access{Name: "n", Token: 5})
			})
			require.ErrorAs(t, err, &stale)
			assert.Equal(t, session.Token(9), stale.Seen)

			err = c.once(ctx, func(tx tx) error {
				read(tx, 12)
				n, err := tx.exec(ctx, "UPDATE data SET value = 'late', token = 11 WHERE name = 'n' AND token <= 11")
				require.NoError(t, err)
				return tx.fence.CheckRow(ctx, row("n", 11), n)
			})
			require.ErrorAs(t, err, &stale)
			assert.Equal(t, session.Token(12), stale.Seen)
		})
	}
}

// TestAReadInOneStatementWithTouchCanBeOld: this is why Touch is a statement of its own. The whole
// statement reads what was committed when it began, also if it then waits.
func TestAReadInOneStatementWithTouchCanBeOld(t *testing.T) {
	c, ctx := kit{"native", "marks", "committed"}.opened(t), hang.Context(t)
	c.insert(t, "INSERT INTO data (name, value) VALUES ('n', 'old')")
	require.NoError(t, c.touched(ctx, sqlfence.Access{Name: "n", Token: 4}))
	var one sync.WaitGroup
	var value string
	require.NoError(t, c.once(ctx, func(other tx) error {
		if err := other.fence.Touch(ctx, sqlfence.Access{Name: "n", Token: 5}); err != nil {
			return err
		}
		one.Go(func() {
			assert.NoError(t, c.pool.QueryRow(ctx, `WITH touched AS (
				UPDATE fairlock_marks SET exclusive_token = 6 WHERE name = 'n' AND exclusive_token <= 6 RETURNING name
			) SELECT value FROM touched JOIN data USING (name)`).Scan(&value))
		})
		hang.Until(t, func() bool {
			var waits int
			err := c.pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()").Scan(&waits)
			return err == nil && waits == 1
		}, "the statement does not wait")
		_, err := other.exec(ctx, "UPDATE data SET value = 'new' WHERE name = 'n'")
		return err
	}))
	one.Wait()
	assert.Equal(t, "old", value)
}

// counted counts the requests of a transaction.
type counted struct {
	*sql.Tx
	requests int
}

func (c *counted) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.requests++
	return c.Tx.QueryContext(ctx, query, args...)
}

func (c *counted) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c.requests++
	return c.Tx.ExecContext(ctx, query, args...)
}

// TestACheckIsOneRequest, for any number of locks, and none if the caller's statement has the token.
func TestACheckIsOneRequest(t *testing.T) {
	for _, k := range dialects {
		if k.driver == "native" {
			continue
		}
		t.Run(k.driver+k.isolation, func(t *testing.T) {
			c, ctx := k.opened(t), hang.Context(t)
			c.insert(t, "INSERT INTO data (name, value) VALUES ('n', '')")
			inner, err := c.db.BeginTx(ctx, nil)
			require.NoError(t, err)
			defer func() { _ = inner.Rollback() }() // it has no more to do
			tx := &counted{Tx: inner}
			f := sqlfence.In(tx, k.dialect())
			touch := 1
			if k.dialect() == sqlfence.MySQL {
				touch = 2
			}

			require.NoError(t, f.Touch(ctx, sqlfence.Access{Name: "b", Token: 5}, sqlfence.Access{Name: "a", Token: 5}))
			assert.Equal(t, touch, tx.requests)
			require.ErrorIs(t, f.Touch(ctx, sqlfence.Access{Name: "b", Token: 4}), fence.ErrStale)
			assert.Equal(t, 2*touch, tx.requests)
			require.NoError(t, f.TouchRow(ctx, row("n", 5)))
			assert.Equal(t, 2*touch+1, tx.requests)
			require.NoError(t, f.CheckRow(ctx, row("n", 5), 1))
			assert.Equal(t, 2*touch+1, tx.requests)
		})
	}
}

package sqlfence

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/sqlfence"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// rowTouched runs TouchRow in a transaction of its own.
func (c client) rowTouched(t *testing.T, r sqlfence.Row) error {
	t.Helper()
	return c.once(t.Context(), func(tx tx) error { return tx.fence.TouchRow(t.Context(), r) })
}

// written runs a statement with a condition, and CheckRow.
func (c client) written(t *testing.T, statement string, r sqlfence.Row, args ...any) error {
	t.Helper()
	return c.once(t.Context(), func(tx tx) error {
		n, err := tx.exec(t.Context(), c.query(statement), args...)
		require.NoError(t, err)
		return tx.fence.CheckRow(t.Context(), r, n)
	})
}

func (c client) insert(t *testing.T, statement string) {
	t.Helper()
	require.NoError(t, c.once(t.Context(), func(tx tx) error {
		_, err := tx.exec(t.Context(), statement)
		return err
	}))
}

func TestARowIsFencedByItsColumn(t *testing.T) {
	eachDialect(t, func(t *testing.T, c client) {
		const condition = "UPDATE data SET value = $1, token = $2 WHERE name = $3 AND token <= $4"
		c.insert(t, "INSERT INTO data (name, value) VALUES ('ada', '')")

		require.NoError(t, c.rowTouched(t, row("ada", 5)))
		require.NoError(t, c.rowTouched(t, row("ada", 5)), "again")
		require.NoError(t, c.written(t, condition, row("ada", 5), "x", 5, "ada", 5))
		require.NoError(t, c.written(t, condition, row("ada", 5), "x", 5, "ada", 5), "it changes nothing")
		require.NoError(t, c.written(t, condition, row("ada", math.MaxInt64-1), "y", math.MaxInt64-1, "ada", math.MaxInt64-1))

		for what, err := range map[string]error{"touch": c.rowTouched(t, row("ada", 7)), "check": c.written(t, condition, row("ada", 7), "z", 7, "ada", 7)} {
			require.ErrorIs(t, err, fence.ErrStale, what)
			var stale *sqlfence.StaleError
			require.ErrorAs(t, err, &stale)
			assert.Equal(t, "data name ada", stale.Resource)
			assert.Equal(t, fence.StaleError{Token: 7, Mode: session.Exclusive, Seen: math.MaxInt64 - 1}, *stale.Err)
		}
		for what, err := range map[string]error{"touch": c.rowTouched(t, row("bob", 7)), "check": c.written(t, condition, row("bob", 7), "z", 7, "bob", 7)} {
			require.ErrorIs(t, err, sqlfence.ErrNoRow, what)
			assert.NotErrorIs(t, err, fence.ErrStale, what)
		}
		err := c.written(t, condition+" AND value = 'other'", row("ada", math.MaxInt64), "z", math.MaxInt64, "ada", math.MaxInt64)
		require.ErrorContains(t, err, "touch the row before", "the token is not recorded")
	})
}

// TestAColumnThatCannotKeepTokensIsAnError: tokens have 64 bits, and an INT has 32 in most databases.
func TestAColumnThatCannotKeepTokensIsAnError(t *testing.T) {
	eachDialect(t, func(t *testing.T, c client) {
		c.insert(t, "CREATE TABLE small (name VARCHAR(9) PRIMARY KEY, token INT)")
		c.insert(t, "INSERT INTO small VALUES ('new', NULL), ('old', 5)")
		small := func(name string, token session.Token) sqlfence.Row {
			return sqlfence.Row{Table: "small", Key: "name", Column: "token", ID: name, Token: token}
		}

		err := c.rowTouched(t, small("old", math.MaxInt32+1))
		if c.driver == "sqlite" { // its integers have 64 bits, whatever the type
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "ut of range")
			require.NotErrorIs(t, err, fence.ErrStale)
		}

		err = c.written(t, "UPDATE small SET token = $1 WHERE name = $2 AND token <= $3", small("new", 7), 7, "new", 7)
		require.ErrorContains(t, err, "its token is NULL")
		require.NoError(t, c.rowTouched(t, small("new", 7)), "NULL has seen none")
		require.ErrorIs(t, c.rowTouched(t, small("new", 6)), fence.ErrStale)
	})
}

func TestARowTakesTheTokenOfTheContext(t *testing.T) {
	s, err := membackend.New().Open(t.Context(), nil)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, mutex.New(s, "earlier").Do(t.Context(), func(context.Context, *session.Hold) error { return nil }), "it has token 1")
	eachDialect(t, func(t *testing.T, c client) {
		c.insert(t, "INSERT INTO data (name, value) VALUES ('ada', '')")
		h, err := mutex.New(s, "ada").Lock(t.Context())
		require.NoError(t, err)
		defer h.Unlock()
		ctx := h.Context()

		require.NoError(t, c.once(ctx, func(tx tx) error { return tx.fence.TouchRow(ctx, row("ada", 0)) }))

		require.ErrorIs(t, c.rowTouched(t, row("ada", h.Token()-1)), fence.ErrStale)
		require.ErrorIs(t, c.rowTouched(t, row("ada", 0)), sqlfence.ErrNoHold)
		reader, err := rwlock.New(s, "reader").RLock(t.Context())
		require.NoError(t, err)
		defer reader.Unlock()
		err = c.once(t.Context(), func(tx tx) error { return tx.fence.TouchRow(reader.Context(), row("ada", 0)) })
		require.ErrorContains(t, err, "use Touch")
	})
}

//go:build unix

package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The process that play starts is this test's own program.
func TestMain(m *testing.M) {
	if os.Getenv("FENCING_ETCD") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestLateWriteOfAStoppedHolderIsRefused(t *testing.T) {
	var out strings.Builder

	require.NoError(t, play(t.Context(), t.TempDir(), &out))

	t.Log("\n" + out.String())
	tokens := regexp.MustCompile(`token \d+`)
	assert.Equal(t, `first: token N, balance 100
first: ready to write
second: token N, balance 100
second: wrote balance 90
first: write refused, lock lost: true
`, tokens.ReplaceAllString(out.String(), "token N"))
}

func TestTableRefusesLowerTokensReadsIncluded(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "accounts.db"))
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), schema)
	require.NoError(t, err)

	for _, c := range []struct {
		statement string
		token     int
		more      []any
		balance   int // -1: refused
	}{
		{touch, 5, nil, 100},
		{touch, 5, nil, 100},
		{touch, 4, nil, -1},
		{write, 5, []any{90}, 90},
		{touch, 7, nil, 90}, // a read shuts out the one before
		{write, 5, []any{80}, -1},
		{touch, 5, nil, -1},
		{write, 7, []any{80}, 80},
	} {
		balance, err := step(t.Context(), db, c.statement, append([]any{"ada", c.token}, c.more...)...)

		if c.balance < 0 {
			require.ErrorIs(t, err, errFenced, "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		assert.Equal(t, c.balance, balance, "%+v", c)
	}
}

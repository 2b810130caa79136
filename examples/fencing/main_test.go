//go:build unix

package main

import (
	"bufio"
	"database/sql"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/etcdtest/operator"
	"github.com/fairlock/fairlock/session"
)

// The process that demo starts is this test's own program.
func TestMain(m *testing.M) {
	if os.Getenv("FENCING_ETCD") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestLateWriteOfAStoppedHolderIsRefused(t *testing.T) {
	var out strings.Builder

	require.NoError(t, demo(t.Context(), t.TempDir(), &out))

	t.Log("\n" + out.String())
	tokens := regexp.MustCompile(`token \d+`)
	assert.Equal(t, `first: token N, balance 100
first: ready to write
second: token N, balance 100
second: wrote balance 90
first: write refused, lock lost: true
`, tokens.ReplaceAllString(out.String(), "token N"))
}

// TestAMissingRowIsNoStaleToken: tokens of ZooKeeper have more than 32 bits.
func TestAMissingRowIsNoStaleToken(t *testing.T) {
	const token = session.Token(1<<32 + 7)
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "accounts.db"))
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), schema)
	require.NoError(t, err)

	balance, err := step(t.Context(), db, touch, "ada", token)
	require.NoError(t, err)
	assert.EqualValues(t, 100, balance)
	_, err = step(t.Context(), db, touch, "ada", token-1)
	require.ErrorIs(t, err, errFenced)
	assert.ErrorContains(t, err, "token 4294967303")
	_, err = step(t.Context(), db, touch, "bob", token)
	require.NotErrorIs(t, err, errFenced)
	assert.EqualError(t, err, `there is no account "bob"`)
}

func TestSIGTERMReleasesTheLock(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	path := filepath.Join(t.TempDir(), "accounts.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), schema)
	require.NoError(t, err)
	holder := exec.CommandContext(t.Context(), os.Args[0])
	holder.Env = append(os.Environ(), "FENCING_ETCD="+cluster.Endpoints()[0], "FENCING_DB="+path)
	stdin, err := holder.StdinPipe() // stays open
	require.NoError(t, err)
	defer stdin.Close()
	stdout, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "first: ready to write" {
	}

	client := cluster.Client(t)
	operator.Session(t, client)

	require.NoError(t, holder.Process.Signal(syscall.SIGTERM))
	_, err = io.Copy(io.Discard, stdout)
	require.NoError(t, err)

	require.NoError(t, holder.Wait())
	left, err := client.Leases(t.Context())
	require.NoError(t, err)
	require.Empty(t, left.Leases, "the program ends its session")
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
		{touch, 7, nil, 90}, // a read makes the older token stale
		{write, 5, []any{80}, -1},
		{touch, 5, nil, -1},
		{write, 7, []any{80}, 80},
	} {
		balance, err := step(t.Context(), db, c.statement, "ada", append([]any{c.token}, c.more...)...)

		if c.balance < 0 {
			require.ErrorIs(t, err, errFenced, "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		assert.EqualValues(t, c.balance, balance, "%+v", c)
	}
}

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

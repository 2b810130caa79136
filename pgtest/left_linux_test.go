package pgtest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/pgtest"
)

// workIn returns the processes that work in a folder or below.
func workIn(t *testing.T, folder string) (all []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	require.NoError(t, err)
	for _, link := range links {
		dir, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(dir, folder+"/") {
			all = append(all, link+" "+dir)
		}
	}
	return all
}

// segments returns the segments of System V shared memory that no process uses, but those of
// before. See proc(5).
func segments(t *testing.T, before ...string) (all []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[6] == "0" && !slices.Contains(before, fields[1]) {
			all = append(all, fields[1])
		}
	}
	return all
}

// childrenOf returns the processes that another has started. See proc(5).
func childrenOf(t *testing.T, parent int) (all []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if err == nil && fields[0] != "Z" && fields[1] == strconv.Itoa(parent) {
			all = append(all, file)
		}
	}
	return all
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	before := segments(t)
	s := pgtest.New(t, &pgtest.Options{Clock: true, TLS: true})
	b := standby(t, s, nil)
	pooler, err := s.Bouncer(t.Context(), nil)
	require.NoError(t, err)
	conn := pooled(t, pooler.URL())
	require.NoError(t, conn.Ping(t.Context()))
	other := s.Conn(t)
	require.NoError(t, s.KillProcess(int(s.Conn(t).PgConn().PID())), "it makes a new segment")
	hang.Until(t, func() bool { return other.Ping(t.Context()) != nil }, "the other backend lives")
	hang.Until(t, func() bool { return s.Exec(t.Context(), "select 1") == nil }, "the server does not recover")
	require.NoError(t, b.Pause())
	of, ofStandby := childrenOf(t, s.Pid()), childrenOf(t, b.Pid())
	require.NotEmpty(t, of)
	require.NotEmpty(t, ofStandby)
	folders := []string{s.Socket(), b.Socket()}

	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "a second Close does nothing")

	for _, folder := range folders {
		assert.Empty(t, workIn(t, folder))
		assert.NoDirExists(t, folder)
	}
	assert.True(t, testserver.Refused(pooler.Addr()))
	assert.Empty(t, childrenOf(t, os.Getpid()))
	for _, file := range slices.Concat(of, ofStandby) {
		text, err := os.ReadFile(file)
		assert.True(t, err != nil || strings.Contains(string(text), ") Z "), "%s", text)
	}
	assert.Empty(t, segments(t, before...))
	left, err := filepath.Glob("/dev/shm/*faketime*")
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestServersDieWithTheirParent(t *testing.T) {
	before, above := segments(t), filepath.Dir(t.TempDir())
	require.NoError(t, os.Chmod(above, 0o711)) // the servers may be another user's

	testserver.DieWithParent(t, 3)

	hang.Until(t, func() bool { return len(workIn(t, above)) == 0 }, "processes are left in %s", above)
	hang.Until(t, func() bool { return len(segments(t, before...)) == 0 }, "segments are left")
}

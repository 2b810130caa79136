package redistest_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/redistest"
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
	s := redistest.New(t, &redistest.Options{Clock: true, TLS: true, Persistence: redistest.Snapshots})
	r := replica(t, s)
	do(t, s, "CONFIG", "SET", "rdb-key-save-delay", "60000000") // a minute for each key
	do(t, s, "SET", "a", "b")
	do(t, s, "BGSAVE")
	require.NotEmpty(t, childrenOf(t, s.Pid()), "it writes a snapshot")
	require.NoError(t, r.Pause())
	folders := []string{filepath.Dir(s.Socket()), filepath.Dir(r.Socket())}
	link := r.Link().Addr()

	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "a second Close does nothing")

	for _, folder := range folders {
		hang.Until(t, func() bool { return len(workIn(t, folder)) == 0 }, "a process works in %s", folder)
		assert.NoDirExists(t, folder)
	}
	assert.True(t, testserver.Refused(link))
	assert.Empty(t, childrenOf(t, os.Getpid()))
}

func TestServersDieWithTheirParent(t *testing.T) {
	above := filepath.Dir(t.TempDir())

	testserver.DieWithParent(t, 2)

	hang.Until(t, func() bool { return len(workIn(t, above)) == 0 }, "processes are left in %s", above)
}

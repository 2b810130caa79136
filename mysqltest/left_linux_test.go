package mysqltest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/mysqltest"
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

func TestCloseLeavesNothingBehind(t *testing.T) {
	s := mysqltest.New(t, nil)
	db, folder := connect(t, s), filepath.Dir(s.Socket())
	require.NoError(t, db.PingContext(hang.Context(t)))
	require.NotEmpty(t, workIn(t, folder), "the server works in its data directory")
	require.NoError(t, s.Pause())

	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "a second Close does nothing")

	assert.Empty(t, workIn(t, folder))
	assert.NoDirExists(t, folder)
	assert.True(t, testserver.Refused(s.Addr()))
}

func TestServersDieWithTheirParent(t *testing.T) {
	above := filepath.Dir(t.TempDir())

	testserver.DieWithParent(t, 2)

	hang.Until(t, func() bool { return len(workIn(t, above)) == 0 }, "processes are left in %s", above)
}

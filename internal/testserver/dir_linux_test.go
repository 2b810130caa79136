package testserver

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDataOfDeadTestsIsSweptAway(t *testing.T) {
	base := t.TempDir()
	alive, err := makeDirIn(base, "thistest")
	require.NoError(t, err)
	dead, err := makeDirIn(base, "thistest")
	require.NoError(t, err)
	kept, err := makeDirIn(base, "thistest")
	require.NoError(t, err)
	foreign := filepath.Join(base, "thistest-foreign") // without a lock file
	require.NoError(t, os.Mkdir(foreign, 0o700))
	long := time.Now().Add(-time.Hour)
	for _, dir := range []*Dir{alive, dead} {
		require.NoError(t, os.Chtimes(filepath.Join(dir.path, lockFile), long, long))
	}
	dead.unlock()
	kept.unlock()

	sweep(base, "thistest-*")

	assert.DirExists(t, alive.path)
	assert.NoDirExists(t, dead.path)
	assert.DirExists(t, kept.path, "it is younger than a minute")
	assert.DirExists(t, foreign)
	require.NoError(t, alive.Remove())
	assert.NoDirExists(t, alive.path)
}

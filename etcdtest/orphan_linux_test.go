package etcdtest

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
	alive, err := makeDirIn(base)
	require.NoError(t, err)
	dead, err := makeDirIn(base)
	require.NoError(t, err)
	kept, err := makeDirIn(base)
	require.NoError(t, err)
	foreign := filepath.Join(base, "etcdtest-foreign") // without a lock file
	require.NoError(t, os.Mkdir(foreign, 0o700))
	long := time.Now().Add(-time.Hour)
	for _, dir := range []*dataDir{alive, dead} {
		require.NoError(t, os.Chtimes(filepath.Join(dir.path, lockFile), long, long))
	}
	dead.unlock()
	kept.unlock()

	sweep(base)

	assert.DirExists(t, alive.path)
	assert.NoDirExists(t, dead.path)
	assert.DirExists(t, kept.path, "too young to tell")
	assert.DirExists(t, foreign)
	require.NoError(t, alive.remove())
	assert.NoDirExists(t, alive.path)
}

package testserver

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDataOfDeadTestsIsSweptAway(t *testing.T) {
	base := t.TempDir()
	alive, err := makeDirIn(base, "thistest-*")
	require.NoError(t, err)
	dead, err := makeDirIn(base, "thistest-*")
	require.NoError(t, err)
	kept, err := makeDirIn(base, "thistest-*")
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

func TestDataOfDeadTestsIsSweptFromDiskAndMemory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dead, err := makeDirIn(os.TempDir(), "sweeptest-*")
	require.NoError(t, err)
	dead.unlock()
	long := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dead.path, lockFile), long, long))

	dir, err := MakeDir("sweeptest", true)
	require.NoError(t, err)

	assert.NoDirExists(t, dead.path)
	require.NoError(t, dir.Remove())
}

// Docker gives a container 64 MiB of /dev/shm.
func TestSmallMemoryIsNotUsed(t *testing.T) {
	assert.False(t, memorySuffices(64<<20))
	assert.False(t, memorySuffices(freeBytes("/nowhere/to/be/found")))
	assert.True(t, memorySuffices(2<<30))
}

// The owner removes the lock file before the directory.
func TestSweepMakesNoFileInADirectoryBeingRemoved(t *testing.T) {
	dir := t.TempDir()

	_, err := lock(dir, 0)

	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.Remove(dir), "it must be empty")
}

func TestLockOutlivesItsOwnersReferences(t *testing.T) {
	dir := t.TempDir()
	_, err := lockDir(dir)
	require.NoError(t, err)

	for range 10 {
		runtime.GC()
		runtime.Gosched()
		_, err = lock(dir, 0)
		require.ErrorIs(t, err, syscall.EWOULDBLOCK)
	}
}

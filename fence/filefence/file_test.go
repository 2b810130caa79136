//go:build unix

package filefence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session"
)

func TestLowerTokensAreRefusedReadsIncluded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	_, err := Read(t.Context(), path, 5, session.Exclusive)
	require.ErrorIs(t, err, fs.ErrNotExist, "and yet it counts")

	err = Write(t.Context(), path, []byte("late"), 0o640, 4)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, fence.StaleError{Token: 4, Mode: session.Exclusive, Seen: 5}, *stale)
	assert.ErrorContains(t, err, path)
	require.NoFileExists(t, path)

	require.NoError(t, Write(t.Context(), path, []byte("five"), 0o640, 5))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o640), info.Mode().Perm())
	data, err := Read(t.Context(), path, 7, session.Shared)
	require.NoError(t, err)
	assert.Equal(t, "five", string(data))
	require.ErrorIs(t, Write(t.Context(), path, nil, 0o640, 6), fence.ErrStale, "a reader has come")
	_, err = Read(t.Context(), path, 6, session.Shared)
	require.NoError(t, err, "readers come in any order")
	_, err = Read(t.Context(), path, 4, session.Shared)
	require.ErrorIs(t, err, fence.ErrStale)
}

func TestMarksThatCannotBeReadLetNobodyIn(t *testing.T) {
	for _, text := range []string{"", "{", `{"exclusive":"5"}`} {
		path := filepath.Join(t.TempDir(), "report")
		require.NoError(t, os.WriteFile(path+markSuffix, []byte(text), 0o600))

		err := Write(t.Context(), path, []byte("new"), 0o600, 5)

		require.ErrorContains(t, err, "marks", "%q", text)
		assert.NoFileExists(t, path)
	}
}

func TestTheEndOfTheContextEndsTheWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())

	err := Do(t.Context(), path, 5, session.Exclusive, func() error {
		waiter := make(chan error)
		go func() {
			_, err := Read(ctx, path, 6, session.Exclusive)
			waiter <- err
		}()
		cancel(cause)
		return hang.Receive(t, waiter, "the end of the waiter")
	})

	require.ErrorIs(t, err, cause)
	require.NoError(t, Write(t.Context(), path, nil, 0o600, 5), "the waiter has shown nothing")
}

func TestALockFileThatWasDeletedLocksNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockSuffix)
	unlock, err := lock(t.Context(), path)
	require.NoError(t, err)
	defer unlock()
	old, err := os.Open(path)
	require.NoError(t, err)
	defer old.Close()
	require.NoError(t, os.Remove(path))

	again, err := lock(t.Context(), path)

	require.NoError(t, err, "it is another file")
	defer again()
	assert.False(t, isAt(old, path))
}

// crashEnv has the step before which a process kills itself, and the path.
const crashEnv = "FAIRLOCK_FILEFENCE_CRASH"

// crash writes a file with token 7, as far as the step.
func crash() {
	step, path, _ := strings.Cut(os.Getenv(crashEnv), " at ")
	d := disk{step: func(name string) {
		if name == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}
	err := d.write(context.Background(), path, []byte("new"), 0o600, 7)
	fmt.Fprintln(os.Stderr, "no such step:", step, err)
	os.Exit(1)
}

func TestACrashAtAnyStepLeavesAWholeFileAndAMarkNotBelowIt(t *testing.T) {
	for _, c := range []struct {
		step, content string
		mark          session.Token
	}{
		{"lock", "old", 5},
		{"create.fence", "old", 5},
		{"write.fence", "old", 5},
		{"sync.fence", "old", 5},
		{"rename.fence", "old", 5},
		{"sync folder.fence", "old", 7},
		{"create", "old", 7},
		{"write", "old", 7},
		{"sync", "old", 7},
		{"rename", "old", 7},
		{"sync folder", "new", 7},
	} {
		t.Run(c.step, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "report")
			require.NoError(t, Write(t.Context(), path, []byte("old"), 0o600, 5))
			exe, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), crashEnv+"="+c.step+" at "+path)
			out, err := cmd.CombinedOutput()
			require.ErrorContains(t, err, "killed", "%s", out)

			content, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, c.content, string(content))
			marks, err := readMarks(path + markSuffix)
			require.NoError(t, err)
			assert.Equal(t, c.mark, marks.Exclusive)
			if c.mark == 7 {
				require.ErrorIs(t, Write(t.Context(), path, nil, 0o600, 6), fence.ErrStale)
			}

			require.NoError(t, Write(t.Context(), path, []byte("next"), 0o600, 8), "nothing is in the way")
			data, err := Read(t.Context(), path, 8, session.Exclusive)
			require.NoError(t, err)
			assert.Equal(t, "next", string(data))
			left, err := filepath.Glob(path + "*")
			require.NoError(t, err)
			assert.ElementsMatch(t, []string{path, path + markSuffix, path + lockSuffix}, left)
		})
	}
}

func TestFencedWritesAloneLoseUpdatesAndFencedFirstTouchesDoNot(t *testing.T) {
	fencetest.TestOrders(t, open, fencetest.Dir(t))
}

func TestALoadWithStopsAndKillsLosesNoUpdate(t *testing.T) {
	fencetest.TestLoad(t, open, fencetest.Dir(t))
}

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// spinEnv makes the test binary a program with many busy threads.
const spinEnv = "FAIRLOCK_PROCESS_TEST_SPIN"

func TestMain(m *testing.M) {
	if os.Getenv(spinEnv) != "" {
		for range 4 * runtime.NumCPU() {
			go func() {
				for {
					_ = os.Getppid() // in and out of the kernel
				}
			}()
		}
		select {}
	}
	goleak.VerifyTestMain(m)
}

func TestPausedProcessStandsStill(t *testing.T) {
	cmd, err := Self(t.Context(), spinEnv, "1")
	require.NoError(t, err)
	p := Start(cmd)
	defer p.Halt()

	for range 200 {
		require.NoError(t, p.Pause())
		for thread, state := range threads(t, p.Pid()) {
			require.Equal(t, "T", state, "thread %s runs", thread)
		}
		require.NoError(t, p.Pause(), "it is paused already")
		require.NoError(t, p.Resume())
	}
	p.Halt()
	require.ErrorIs(t, p.Pause(), os.ErrProcessDone)
}

// threads returns the states of a process's threads.
func threads(t *testing.T, pid int) map[string]string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	states := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(text), ") ")
		require.True(t, found)
		states[file] = rest[:1]
	}
	return states
}

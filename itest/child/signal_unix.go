//go:build unix

package child

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/recipetest"
)

// Stop stops the process, and returns when the kernel says that it is.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	pid := p.Pid()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true // no such file system; the signal cannot be refused
		}
		_, state, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(state, "T")
	}, recipetest.Patience, time.Millisecond, "stopped process")
}

// Continue lets a stopped process go on.
func (p *Process) Continue(t testing.TB) {
	t.Helper()
	require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGCONT))
}

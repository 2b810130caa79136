package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// powerless is a user without rights.
const powerless = 65534

// asPowerless starts a supervisor as a user without rights, from a copy of the test binary that
// this user can read. Only root can do that.
func asPowerless(t *testing.T, p func(dir, exe string) plan) *super {
	t.Helper()
	dir, err := os.MkdirTemp("", "fairlock-powerless-*") //nolint:usetesting // t.TempDir is for its owner alone
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // for the powerless
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	exe := filepath.Join(dir, "supervise")
	require.NoError(t, os.WriteFile(exe, program, 0o755)) //nolint:gosec // for the powerless
	s := prepare(t, p(dir, exe))
	s.Path = exe
	s.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: powerless, Gid: powerless}}
	s.begin(t)
	return s
}

// mustBeRoot reports whether a test can become another user.
func mustBeRoot(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("only root can become another user")
		return false
	}
	return true
}

// The command is a set-uid program, as sudo is.
func TestACommandThatRunsAsAnotherUserIsReportedAtTheStart(t *testing.T) {
	t.Parallel()
	if !mustBeRoot(t) {
		return
	}
	s := asPowerless(t, func(dir, exe string) plan {
		root := filepath.Join(dir, "root")
		program, err := os.ReadFile(exe)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(root, program, 0o755)) //nolint:gosec // for the powerless
		require.NoError(t, os.Chmod(root, 0o755|os.ModeSetuid))
		return plan{Args: []string{root, becomeRoot}, Left: time.Hour}
	})
	command := s.pids(t, 1)[0]

	s.err.WaitFor(t, fmt.Sprintf(`refused %d\n`, command))
	signalTo(t, s.Process.Pid, syscall.SIGTERM)
	signalTo(t, command, syscall.SIGTERM)

	assert.Equal(t, 143, s.code(t))
	assert.NotRegexp(t, `(?s)refused.*refused`, s.err.String(), "once")
}

// Some of the group can be signalled, such as the shell that has called sudo.
func TestAProcessOfTheGroupThatRunsAsAnotherUserIsReportedAtTheFirstSignal(t *testing.T) {
	t.Parallel()
	if !mustBeRoot(t) {
		return
	}
	s := asPowerless(t, func(string, string) plan {
		p := sh(`trap 'exit 5' TERM; echo $$; while :; do sleep 0.05; done`)
		p.Grace = time.Minute
		return p
	})
	group := s.pids(t, 1)[0]
	member := exec.CommandContext(t.Context(), "/bin/sleep", "1000")
	member.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	require.NoError(t, member.Start())
	assert.NotContains(t, s.err.String(), "refused")

	signalTo(t, s.Process.Pid, syscall.SIGTERM)
	s.err.WaitFor(t, fmt.Sprintf(`refused %d\n`, member.Process.Pid))
	require.NoError(t, member.Process.Kill())
	_ = member.Wait() // it was killed

	assert.Equal(t, 5, s.code(t))
}

package supervise

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A supervisor may die between the start of the command and its first word to the
// guard.
func TestAGuardThatWasToldNothingFindsTheGroup(t *testing.T) {
	g, err := startGuard([]string{"fairlock", "guard"})
	require.NoError(t, err)
	t.Cleanup(g.dismiss)
	x := &super{}
	x.Cmd = exec.CommandContext(t.Context(), "/bin/sh", "-c", deaf)
	x.Env = append(os.Environ(), g.badge()...)
	x.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	x.Stdout = &x.out
	x.done = make(chan struct{})
	x.begin(t)
	t.Cleanup(func() { _ = syscall.Kill(-x.Process.Pid, syscall.SIGKILL) })
	other := start(t, sh("echo $$; sleep 1000"))
	pids, others := x.pids(t, 3), other.pids(t, 1)

	require.NoError(t, unix.Close(g.pipe))
	_, err = unix.Wait4(g.pid, nil, 0, nil)
	require.NoError(t, err)

	eventually(t, "all dead", func() bool { return len(alive(pids...)) == 0 })
	require.Equal(t, others, alive(others...), "and nobody else")
	g.pipe = -1
}

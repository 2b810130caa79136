package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/session/driver"
)

// A supervisor may die, or be stopped, after the start of the command and before it sends
// the number of the group to the guard.
func TestAGuardWithoutANumberFindsTheGroup(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, g *guard){
		"when the supervisor dies": func(t *testing.T, g *guard) {
			require.NoError(t, unix.Close(g.pipe))
			_, err := unix.Wait4(g.pid, nil, 0, nil)
			require.NoError(t, err)
			g.pipe = -1
		},
		"at the deadline": func(_ *testing.T, g *guard) { g.send(0, driver.SystemClock().Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			g, err := startGuard([]string{"fairlock", "guard"})
			require.NoError(t, err)
			t.Cleanup(g.end)
			x := &super{}
			x.Cmd = exec.CommandContext(t.Context(), "/bin/sh", "-c", ignoresTERM)
			x.Env = append(os.Environ(), g.marker()...)
			x.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			x.Stdout = &x.out
			x.done = make(chan struct{})
			x.begin(t)
			t.Cleanup(func() { _ = syscall.Kill(-x.Process.Pid, syscall.SIGKILL) })
			other := start(t, sh("echo $$; sleep 1000"))
			// A daemon of an earlier command, whose guard had a number that comes again.
			daemon := exec.CommandContext(t.Context(), "/bin/sleep", "1000")
			daemon.Env = append(os.Environ(), fmt.Sprintf("%s=%d", markVariable, g.pid))
			daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			require.NoError(t, daemon.Start())
			t.Cleanup(func() { _ = errors.Join(daemon.Process.Kill(), daemon.Wait()) })
			pids, others := x.pids(t, 3), append(other.pids(t, 1), daemon.Process.Pid)

			end(t, g)

			eventually(t, "all dead", func() bool { return len(alive(pids...)) == 0 })
			require.Equal(t, others, alive(others...), "and no other process")
		})
	}
}

// The guard must get processor time whenever the command does.
func TestAGuardIsScheduledWithTheCommandOrBefore(t *testing.T) {
	g, err := startGuard([]string{"fairlock", "guard"})
	require.NoError(t, err)
	t.Cleanup(g.end)
	ours, err := unix.Getsid(0)
	require.NoError(t, err)
	its, err := unix.Getsid(g.pid)
	require.NoError(t, err)
	group, err := unix.Getpgid(g.pid)
	require.NoError(t, err)

	require.Equal(t, ours, its, "the kernel divides processor time among sessions")
	require.Equal(t, g.pid, group, "a signal to our group must not reach the guard")
	if !mayRaisePriority(t) {
		t.Log("real-time priorities are not permitted here")
		return
	}
	eventually(t, "a thread with a real-time priority", func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", g.pid))
		require.NoError(t, err)
		return slices.ContainsFunc(tasks, func(task string) bool {
			tid, err := strconv.Atoi(filepath.Base(task))
			require.NoError(t, err)
			a, err := unix.SchedGetAttr(tid, 0)
			return err == nil && a.Policy == unix.SCHED_RR
		})
	})
}

// mayRaisePriority reports whether a thread may have a real-time priority.
func mayRaisePriority(t *testing.T) bool {
	t.Helper()
	may := make(chan bool, 1)
	go func() { // its thread ends with it, because it stays locked
		runtime.LockOSThread()
		may <- unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_RR, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: 1}, 0) == nil
	}()
	return <-may
}

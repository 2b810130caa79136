package supervise

import (
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

// A supervisor may die, or be stopped, between the start of the command and the moment
// when it sends the command's number to the guard.
func TestAGuardWithoutANumberFindsTheGroup(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, g *guard){
		"when the supervisor dies": func(t *testing.T, g *guard) {
			require.NoError(t, unix.Close(g.pipe))
			_, err := unix.Wait4(g.pid, nil, 0, nil)
			require.NoError(t, err)
			g.pipe = -1
		},
		"at the deadline": func(_ *testing.T, g *guard) { g.watch(0, driver.SystemClock().Now()) },
	} {
		t.Run(name, func(t *testing.T) {
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

			end(t, g)

			eventually(t, "all dead", func() bool { return len(alive(pids...)) == 0 })
			require.Equal(t, others, alive(others...), "and nobody else")
		})
	}
}

// Whatever the command gets of the processors, its guard must get too.
func TestAGuardIsScheduledAsTheCommandOrBefore(t *testing.T) {
	g, err := startGuard([]string{"fairlock", "guard"})
	require.NoError(t, err)
	t.Cleanup(g.dismiss)
	ours, err := unix.Getsid(0)
	require.NoError(t, err)
	its, err := unix.Getsid(g.pid)
	require.NoError(t, err)
	group, err := unix.Getpgid(g.pid)
	require.NoError(t, err)

	require.Equal(t, ours, its, "processors are shared out to sessions")
	require.Equal(t, g.pid, group, "a signal to our group is not for the guard")
	if !mayHurry(t) {
		t.Log("nobody may run before others here")
		return
	}
	eventually(t, "a thread that runs before others", func() bool {
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

// mayHurry says whether a thread may run before all others.
func mayHurry(t *testing.T) bool {
	t.Helper()
	may := make(chan bool, 1)
	go func() { // ends with its thread, since that is not given back
		runtime.LockOSThread()
		may <- unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_RR, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: 1}, 0) == nil
	}()
	return <-may
}

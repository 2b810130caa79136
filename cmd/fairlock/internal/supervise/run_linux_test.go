package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/internal/hang"
)

func TestTheExitCodeIsThatOfTheCommand(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{
		"exit 0": 0, "exit 3": 3, "exit 255": 255, "kill -9 $$": 137, "kill -TERM $$": 143, "kill -SEGV $$": 139,
	} {
		got := start(t, sh(script)).code(t)

		assert.Equal(t, want, got, script)
	}
}

func TestACommandThatCannotBeStartedIsReported(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	for path, want := range map[string]int{"/nonexistent/x": 127, file: 126, "/": 126} {
		s := start(t, plan{Args: []string{path}, Left: time.Hour})

		assert.Equal(t, want, s.code(t), path)
		assert.Contains(t, s.err.String(), "err=start "+path+": ")
	}
}

// ignoresTERM is a shell with a child and a grandchild, which all ignore SIGTERM. It
// prints its own pid first.
const ignoresTERM = `trap '' TERM; echo $$; (sleep 1000 & echo $!; wait) & echo $!; wait`

func TestAtTheDeadlineAllOfTheGroupIsDead(t *testing.T) {
	t.Parallel()
	p := sh(ignoresTERM)
	p.Left, p.Grace, p.Renewed = 10*time.Second, 3*time.Second, true
	s := start(t, p)
	pids := s.pids(t, 3)

	s.fix(t)
	code := s.code(t)

	assert.Empty(t, alive(pids...))
	assert.Equal(t, 79, code)
	assert.GreaterOrEqual(t, time.Since(s.began), p.Left, "not before")
	assert.Contains(t, s.err.String(), "state held\nstate stopping\n")
}

func TestACommandThatStopsInTimeIsNotKilled(t *testing.T) {
	t.Parallel()
	p := sh(`trap 'echo got TERM; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
	p.Left, p.Grace, p.Renewed = 2*hang.Guard, 2*hang.Guard-2*time.Second, true
	s := start(t, p)
	s.out.WaitFor(t, "ready")

	s.fix(t)
	code := s.code(t)

	assert.Equal(t, 79, code)
	assert.Equal(t, "ready\ngot TERM\n", s.out.String())
}

func TestAStoppedCommandGetsTheSignalToStop(t *testing.T) {
	t.Parallel()
	p := sh(`kill -STOP $$`)
	p.Left, p.Grace = 2*hang.Guard, 2*hang.Guard-time.Second
	s := start(t, p)

	assert.Equal(t, 79, s.code(t))
}

func TestALossWithoutWarningLeavesOneSecond(t *testing.T) {
	t.Parallel()
	p := sh(ignoresTERM)
	p.Gone, p.Grace, p.Renewed = time.Second, 2*hang.Guard, true
	s := start(t, p)
	pids := s.pids(t, 3)

	s.fix(t)
	code := s.code(t)

	assert.Equal(t, 79, code)
	assert.Empty(t, alive(pids...))
	assert.GreaterOrEqual(t, time.Since(s.began), p.Gone+goneGrace)
}

func TestMaxRunExits124(t *testing.T) {
	t.Parallel()
	p := sh(`trap 'exit 0' TERM; while :; do sleep 0.05; done`)
	p.MaxRun, p.Grace = time.Second, 2*hang.Guard
	s := start(t, p)

	assert.Equal(t, 124, s.code(t))
	assert.Contains(t, s.err.String(), "result lost=false toolong=true")
}

// The process may be stopped between the grant and the start.
func TestAfterTheDeadlineNoCommandIsStarted(t *testing.T) {
	t.Parallel()
	p := sh("echo started")
	p.Left = 0
	s := start(t, p)

	assert.Equal(t, 79, s.code(t))
	assert.Empty(t, s.out.String())
	assert.Equal(t, "state lost\nresult lost=true toolong=false err=the deadline passed before the command was started\n", s.err.String())
}

func TestWithKeepOnTheCommandEndsByItself(t *testing.T) {
	t.Parallel()
	p := sh(`read x; exit 5`)
	p.Left, p.KeepOn = 200*time.Millisecond, true
	s := prepare(t, p)
	in, err := s.StdinPipe()
	require.NoError(t, err)
	s.begin(t)
	s.err.WaitFor(t, "state lost")

	require.NoError(t, in.Close())

	assert.Equal(t, 5, s.code(t))
	// If the start of the command took longer than Left, the state was never held.
	assert.Regexp(t, `(?m)^state lost\nresult lost=true`, s.err.String())
}

func TestAfterSIGTERMNothingOfTheGroupIsLeft(t *testing.T) {
	t.Parallel()
	p := sh(`(trap '' TERM; sleep 1000) >/dev/null 2>&1 & echo $! $$; wait`)
	p.Grace = 200 * time.Millisecond
	s := start(t, p)
	pids := s.pids(t, 2)

	signalTo(t, s.Process.Pid, syscall.SIGTERM)

	assert.Equal(t, 143, s.code(t))
	assert.Empty(t, alive(pids...))
}

func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	s := start(t, sh(`for i in 1 2 3; do (sleep 0.1 & echo $!) ; done; sleep 1000`))
	pids := s.pids(t, 3)

	eventually(t, "zombies of the supervisor's", func() bool {
		for pid, state := range children(t, s.Process.Pid) {
			if state == "Z" {
				return false
			}
			if slices.Contains(pids, pid) {
				return false
			}
		}
		return len(alive(pids...)) == 0
	})
}

// A leader runs for months, and what its command starts may make itself a daemon.
func TestOrphansThatHaveLeftTheGroupAreReaped(t *testing.T) {
	t.Parallel()
	s := start(t, sh(`for i in 1 2 3; do (setsid sh -c 'echo $$; sleep 0.1' &) ; done; sleep 1000`))
	pids := s.pids(t, 3)

	eventually(t, "zombies of the supervisor's", func() bool {
		for pid := range children(t, s.Process.Pid) {
			if slices.Contains(pids, pid) {
				return false
			}
		}
		return len(alive(pids...)) == 0
	})
}

func TestSignalsGoToTheGroup(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH, "ALRM": syscall.SIGALRM,
	} {
		s := start(t, sh(`trap 'echo got `+name+`; exit 7' `+name+`; echo ready; while :; do sleep 0.05; done`))
		s.out.WaitFor(t, "ready")

		signalTo(t, s.Process.Pid, sig)

		assert.Equal(t, 7, s.code(t), name)
		assert.Equal(t, "ready\ngot "+name+"\n", s.out.String())
	}
}

// The command ends after the signal was sent and before Run checks the group.
func TestASignalThatComesTooLateForTheCommandIsReported(t *testing.T) {
	late(t, []os.Signal{syscall.SIGTERM}, nil, Result{Code: 4, Signal: syscall.SIGTERM})
}

// Run checks the group for another reason, and has not received the signals.
func TestSignalsThatRunHasNotReceivedAreReported(t *testing.T) {
	late(t, nil, []os.Signal{syscall.SIGHUP, syscall.SIGTERM}, Result{Code: 4, Signal: syscall.SIGTERM, Hangup: true})
	late(t, nil, []os.Signal{syscall.SIGHUP}, Result{Code: 4, Signal: syscall.SIGHUP, Hangup: true})
}

// late runs a command that ends before a view of its group. Some signals come before that
// is awaited, others during the view.
func late(t *testing.T, before, during []os.Signal, want Result) {
	t.Helper()
	in, theirIn, err := os.Pipe()
	require.NoError(t, err)
	theirOut, out, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = errors.Join(in.Close(), out.Close(), theirOut.Close()) })
	sigs := &Signals{c: make(chan os.Signal, 2)}
	send := func(all []os.Signal) {
		for _, sig := range all {
			sigs.c <- sig
		}
	}
	var pid int
	started := false
	left := func() time.Duration {
		switch {
		case !started: // the first call comes before the command
			started = true
		case pid == 0:
			_, err := fmt.Fscan(theirOut, &pid)
			assert.NoError(t, err)
			send(before)
		case len(sigs.c) == 0 && theirIn != nil:
			assert.NoError(t, theirIn.Close())
			theirIn = nil
			assert.NoError(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
			send(during)
		}
		return time.Hour
	}

	res := Run(t.Context(), Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", "echo $$; read x; exit 4"}, Env: os.Environ(),
		Stdin: in, Stdout: out, Stderr: os.Stderr, Left: left, Signals: sigs,
	})

	assert.Equal(t, want, res)
}

func TestAnIgnoredSignalStaysIgnored(t *testing.T) {
	t.Parallel()
	own := ignored(t, "/proc/self/status")
	s := prepare(t, sh(`echo ready; sleep 2; grep SigIgn /proc/self/status`))
	s.Args = append([]string{"/bin/sh", "-c", `trap '' HUP; exec "$0" "$@"`}, s.Args...)
	s.Path = "/bin/sh"
	s.begin(t)
	s.out.WaitFor(t, "ready")

	signalTo(t, s.Process.Pid, syscall.SIGHUP)

	assert.Equal(t, 0, s.code(t))
	file := filepath.Join(t.TempDir(), "status")
	require.NoError(t, os.WriteFile(file, []byte(s.out.String()), 0o600))
	assert.Equal(t, own|1, ignored(t, file), "that one and no other")
}

// ignored returns the signals that a process ignores, from the text of its status:
// SIGHUP is the lowest bit.
func ignored(t *testing.T, file string) (mask uint64) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "SigIgn:")
	require.True(t, ok, "%s", text)
	mask, err = strconv.ParseUint(strings.Fields(rest)[0], 16, 64)
	require.NoError(t, err)
	return mask
}

func TestTheGroupDiesWithAKilledSupervisor(t *testing.T) {
	t.Parallel()
	s := start(t, sh(ignoresTERM))
	pids := s.pids(t, 3)

	signalTo(t, s.Process.Pid, syscall.SIGKILL)

	eventually(t, "all dead", func() bool { return len(alive(pids...)) == 0 })
}

func TestWithoutAGuardTheCommandDiesWithItsSupervisor(t *testing.T) {
	t.Parallel()
	p := sh(ignoresTERM)
	p.Unguarded = true
	s := start(t, p)
	pids := s.pids(t, 3)
	t.Cleanup(func() { _ = syscall.Kill(-pids[0], syscall.SIGKILL) })

	signalTo(t, s.Process.Pid, syscall.SIGKILL)

	eventually(t, "the command is dead", func() bool { return len(alive(pids[0])) == 0 })
}

func TestTheGroupOfAStoppedSupervisorIsKilledAtTheDeadline(t *testing.T) {
	t.Parallel()
	p := sh(ignoresTERM)
	p.Left, p.Grace, p.Renewed = 10*time.Second, 3*time.Second, true
	s := start(t, p)
	pids := s.pids(t, 3)

	began := time.Now()
	stopped := s.stop(t) // so the deadline is not renewed any more
	eventually(t, "all dead", func() bool { return len(alive(pids...)) == 0 })
	assert.GreaterOrEqual(t, time.Since(began), p.Left-p.Grace, "not before; the last renewal was a moment ago")
	time.Sleep(time.Until(stopped.Add(p.Left))) // the guard may not know of the last renewal
	signalTo(t, s.Process.Pid, syscall.SIGCONT)

	assert.Equal(t, 79, s.code(t))
	assert.Contains(t, s.err.String(), "result lost=true")
}

func TestAStoppedSupervisorWithoutAGuardKillsWhenItContinues(t *testing.T) {
	t.Parallel()
	p := sh(`trap 'echo got TERM; exit 0' TERM; echo $$; while :; do sleep 0.05; done`)
	p.Left, p.Grace, p.Unguarded, p.Renewed = 10*time.Second, 3*time.Second, true, true
	s := start(t, p)
	pids := s.pids(t, 1)
	time.Sleep(time.Until(s.stop(t).Add(p.Left))) // the deadline must pass

	assert.Equal(t, pids, alive(pids...), "no signal was sent")
	signalTo(t, s.Process.Pid, syscall.SIGCONT)

	assert.Equal(t, 79, s.code(t))
	assert.NotContains(t, s.out.String(), "got TERM", "it was killed before anything else")
}

func TestTheGuardAndTheCommandAreReaped(t *testing.T) {
	t.Parallel()
	s, command, guard, goOn := withGuard(t)

	goOn()

	assert.Equal(t, 4, s.code(t))
	for _, pid := range []int{command, guard} {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	}
}

func TestAStoppedGuardDelaysNothing(t *testing.T) {
	t.Parallel()
	s, _, guard, goOn := withGuard(t)
	signalTo(t, guard, syscall.SIGSTOP)

	goOn()

	assert.Equal(t, 4, s.code(t))
}

// withGuard starts a supervisor with two children: a guard, and a command that exits with
// 4 after goOn is called.
func withGuard(t *testing.T) (s *super, command, guard int, goOn func()) {
	t.Helper()
	s = prepare(t, sh("echo $$; read x; exit 4"))
	in, err := s.StdinPipe()
	require.NoError(t, err)
	s.begin(t)
	command = s.pids(t, 1)[0]
	all := children(t, s.Process.Pid)
	require.Len(t, all, 2)
	delete(all, command)
	for guard = range all {
	}
	return s, command, guard, func() { require.NoError(t, in.Close()) }
}

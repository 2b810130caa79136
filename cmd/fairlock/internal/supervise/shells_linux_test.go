package supervise

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// byShells runs a case with a script of each shell. Dash ends with a typed signal itself.
// Bash ends with SIGINT if its command did: one that exits with a code seems to have handled
// the signal.
func byShells(t *testing.T, run func(t *testing.T, script func(p plan, text string) (*super, *keyboard))) {
	t.Helper()
	for _, shell := range []string{"dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			run(t, func(p plan, text string) (*super, *keyboard) {
				return at(t, p, func(s *super) {
					s.Env = append(s.Env, "SUPER="+s.Path)
					s.Path, s.Args = "/bin/"+shell, []string{shell, "-c", text}
				})
			})
		})
	}
}

// sleeps is a command that a signal ends. It is no shell: between vfork and exec dash loses a
// signal, with and without us.
func sleeps() plan { return plan{Args: []string{"/bin/sleep", "1000"}, Left: time.Hour} }

func TestATypedSignalEndsTheScriptToo(t *testing.T) {
	t.Parallel()
	byShells(t, func(t *testing.T, script func(plan, string) (*super, *keyboard)) {
		for _, text := range []string{
			`"$SUPER"; echo next`,
			`"$SUPER" | cat; echo next`, // the command does not get the terminal
			`for i in 1 2 3; do echo round $i; "$SUPER"; done; echo next`,
			`sh -c '"$SUPER"; echo next'; echo next`,
		} {
			s, k := script(sleeps(), text)
			k.screen.WaitFor(t, "state held")

			k.types(t, ctrlC)

			assert.Equal(t, 130, s.code(t), text)
			assert.NotContains(t, k.screen.String(), "next", text)
			assert.NotContains(t, k.screen.String(), "round 2", text)
		}
	})
}

// Bash ignores SIGQUIT.
func TestATypedQuitEndsTheScriptToo(t *testing.T) {
	t.Parallel()
	s, k := at(t, sleeps(), func(s *super) {
		s.Env = append(s.Env, "SUPER="+s.Path)
		s.Path, s.Args = "/bin/dash", []string{"dash", "-c", `"$SUPER"; echo next`}
	})
	k.screen.WaitFor(t, "state held")

	k.types(t, ctrlBackslash)

	assert.Equal(t, 131, s.code(t))
	assert.NotContains(t, k.screen.String(), "next")
	assert.NotContains(t, k.screen.String(), "goroutine", "of the runtime's own")
}

// A supervisor in a supervisor: each gives the terminal away.
func TestATypedSignalEndsAllSupervisorsAbove(t *testing.T) {
	t.Parallel()
	byShells(t, func(t *testing.T, script func(plan, string) (*super, *keyboard)) {
		text, err := json.Marshal(sleeps())
		require.NoError(t, err)
		s, k := script(sh(planEnv+`='`+string(text)+`' "$SUPER"; echo next`), `export SUPER; "$SUPER"; echo next`)
		k.screen.WaitFor(t, `(?s)state held.*state held`)

		k.types(t, ctrlC)

		assert.Equal(t, 130, s.code(t))
		assert.NotContains(t, k.screen.String(), "next")
	})
}

// A command that handles ^C, such as an editor, a shell or a Java program, decides itself: the
// script sees its code, also if that is the one of a signal.
func TestACommandThatHandlesATypedSignalDecides(t *testing.T) {
	t.Parallel()
	byShells(t, func(t *testing.T, script func(plan, string) (*super, *keyboard)) {
		for _, code := range []int{7, 130} {
			p := sh(fmt.Sprintf(`n=0; trap 'n=$((n+1)); echo got $n; [ $n -lt 3 ] || exit %d' INT; echo ready; while :; do sleep 0.05; done`, code))
			s, k := script(p, `"$SUPER"; echo "next $?"`)
			k.screen.WaitFor(t, "ready")

			for _, got := range []string{"got 1", "got 2", "got 3"} {
				k.types(t, ctrlC)
				k.screen.WaitFor(t, got)
			}

			assert.Equal(t, 0, s.code(t))
			k.screen.WaitFor(t, fmt.Sprintf("next %d", code))
		}
	})
}

func TestASignalEndsUsAsItEndedTheCommand(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		s := start(t, sleeps())
		s.err.WaitFor(t, "state held")

		signalTo(t, s.Process.Pid, sig)

		s.code(t)
		ws, ok := s.ProcessState.Sys().(syscall.WaitStatus)
		assert.True(t, ok && ws.Signaled() && ws.Signal() == sig && !ws.CoreDump(), "%v: %v", sig, s.ProcessState)
		assert.NotContains(t, s.err.String(), "goroutine", "of the runtime's own")
	}
}

// Only the supervisor gets the signal, so nothing was typed, and the script goes on.
func TestASignalToUsAloneDoesNotEndOurGroup(t *testing.T) {
	t.Parallel()
	byShells(t, func(t *testing.T, script func(plan, string) (*super, *keyboard)) {
		s, k := script(sh(`kill -TERM $PPID; while :; do sleep 0.05; done`), `"$SUPER"; echo "next $?"`)

		assert.Equal(t, 0, s.code(t))
		k.screen.WaitFor(t, "next 143")
	})
}

func TestATypedInterruptAfterFgEndsTheCommand(t *testing.T) {
	t.Parallel()
	s, k := underShell(t, sleeps(), `"$SUPER"; echo "shell has $?"; fg >/dev/null; echo "then $?"`)
	k.screen.WaitFor(t, "state held")
	k.types(t, ctrlZ)
	k.screen.WaitFor(t, `(?s)shell has 147.*state held`)

	k.types(t, ctrlC)

	k.screen.WaitFor(t, "prompt> ") // the shell drops the rest of its line
	k.types(t, "exit 6\n")

	assert.Equal(t, 6, s.code(t))
	assert.NotContains(t, k.screen.String(), "then")
}

// A loop at a prompt is the shell's own business: each of its commands is a job.
func TestATypedInterruptEndsALoopAtThePrompt(t *testing.T) {
	t.Parallel()
	s, k := at(t, sleeps(), func(s *super) {
		s.Env = append(s.Env, "PS1=prompt> ", "SUPER="+s.Path, "HISTFILE=")
		s.Path, s.Args = "/bin/bash", []string{"bash", "--norc", "--noprofile", "--noediting", "-i"}
	})
	k.screen.WaitFor(t, "prompt> ")
	k.types(t, "for i in 1 2 3; do echo round $((i+10)); \"$SUPER\"; done; exit 5\n")
	k.screen.WaitFor(t, "round 11[^$]*state held")

	k.types(t, ctrlC)
	k.screen.WaitFor(t, `(?s)state held.*prompt> `)
	k.types(t, "exit 6\n")

	assert.Equal(t, 6, s.code(t))
	assert.NotContains(t, k.screen.String(), "round 12")
}

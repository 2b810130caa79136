//go:build unix

package process

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
)

// On Linux the kernel kills the program with its parent anyway; on other Unix
// systems only the leash does.
func TestLeashKillsWhenItsInputEnds(t *testing.T) {
	cmd := leashed(t.Context(), "sh", "-c", "echo running; kill -STOP $$")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "running\n", line)

	require.NoError(t, stdin.Close())
	require.ErrorContains(t, cmd.Wait(), "killed")
}

func TestLeashLetsItsProgramEnd(t *testing.T) {
	p := Start(leashed(t.Context(), "sh", "-c", `echo "last output of $1" >&2; exit 3`, "sh", "mine"))
	defer p.Halt()

	require.EqualError(t, p.Wait(), "exit status 3")
	require.ErrorContains(t, p.Err(), "exit status 3")
	assert.ErrorContains(t, p.Err(), "last output of mine")
}

func TestProcessEndsOnce(t *testing.T) {
	p := StartPiped(exec.CommandContext(t.Context(), "cat"))
	_, err := io.WriteString(p, "hello\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(p).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello\n", line)
	require.NoError(t, p.Err(), "it runs")
	require.NotZero(t, p.Pid())

	p.Halt()
	p.Halt()
	require.ErrorContains(t, p.Err(), "killed")
	assert.True(t, Killed(p.Wait()))
	require.Error(t, p.Pause())
	_, err = io.WriteString(p, "hello\n")
	require.Error(t, err)
}

func TestPauseReturnsAlthoughResumeIsCalled(t *testing.T) {
	p := Start(exec.CommandContext(t.Context(), "cat"))
	defer p.Halt()
	paused := make(chan struct{})
	go func() { // ends with the process at the latest
		defer close(paused)
		for range 100 {
			_ = p.Pause()
		}
	}()

	guard := hang.Context(t)
	for {
		select {
		case <-paused:
			return
		case <-guard.Done():
			require.Fail(t, "Pause waits for a process that runs again")
		default:
			require.NoError(t, p.Resume())
		}
	}
}

func TestProcessExitsWhenItsInputIsClosed(t *testing.T) {
	p := StartPiped(exec.CommandContext(t.Context(), "sh", "-c", "cat; echo bye"))
	defer p.Halt()

	p.CloseInput()

	require.NoError(t, p.Wait())
	assert.False(t, Killed(p.Wait()))
	require.ErrorContains(t, p.Err(), "exit status 0", "Err counts every end as an error")
	output, err := io.ReadAll(p)
	require.NoError(t, err)
	assert.Equal(t, "bye\n", string(output), "read after the end")
}

func TestProcessThatCannotStartHasEnded(t *testing.T) {
	p := StartPiped(exec.CommandContext(t.Context(), "/nowhere/to/be/found"))
	require.Error(t, p.Err(), "Start returns after the end")
	require.ErrorContains(t, p.Wait(), "/nowhere/to/be/found")
	p.CloseInput()
	p.Halt()

	require.ErrorContains(t, p.Err(), "/nowhere/to/be/found")
	assert.Zero(t, p.Pid())
	output, err := io.ReadAll(p)
	require.NoError(t, err)
	assert.Empty(t, output)
	_, err = io.WriteString(p, "hello\n")
	require.Error(t, err)
}

func TestOnlyTheEndOfLongOutputIsKept(t *testing.T) {
	p := Start(exec.CommandContext(t.Context(), "sh", "-c", "yes | head -c 100000 >&2; echo end >&2"))
	require.NoError(t, p.Wait())

	assert.Len(t, p.Stderr(), tailLimit)
	assert.Contains(t, p.Stderr(), "y\nend\n")
}

func TestHaltDoesNotWaitForAGrandchildWithTheSameStderr(t *testing.T) {
	p := StartPiped(exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 & echo $!"))
	var grandchild int
	_, err := fmt.Fscanln(p, &grandchild)
	require.NoError(t, err)
	defer p.Halt()
	defer func() { require.NoError(t, syscall.Kill(grandchild, syscall.SIGKILL)) }()

	hang.Receive(t, p.Done(), "the process has ended, and the end is not seen")
	require.NoError(t, p.Wait(), "it exited with status 0")
}

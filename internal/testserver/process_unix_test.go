//go:build unix

package testserver

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// On Linux the kernel would end the program with us anyway; on other systems a
// leash is all there is.
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
	p := Start(leashed(t.Context(), "sh", "-c", `echo "last words of $1" >&2; exit 3`, "sh", "mine"), nil)
	defer p.Halt()
	<-p.Done()

	require.ErrorContains(t, p.Err(), "exit status 3")
	assert.ErrorContains(t, p.Err(), "last words of mine")
}

func TestProcessEndsOnce(t *testing.T) {
	heard := make(chan string, 1)
	p := Start(exec.CommandContext(context.WithoutCancel(t.Context()), "cat"), func(stdin io.Writer, stdout io.Reader) {
		_, _ = io.WriteString(stdin, "hello\n")
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		heard <- line
	})
	require.Equal(t, "hello\n", <-heard)
	require.NoError(t, p.Err(), "it lives")
	require.NotZero(t, p.Pid())

	p.Halt()
	p.Halt()
	require.ErrorContains(t, p.Err(), "killed")
	require.Error(t, p.Pause())
}

func TestProcessThatCannotStartHasEnded(t *testing.T) {
	p := Start(exec.CommandContext(t.Context(), "/nowhere/to/be/found"), nil)
	<-p.Done()
	p.Halt()

	require.ErrorContains(t, p.Err(), "/nowhere/to/be/found")
	assert.Zero(t, p.Pid())
}

func TestOnlyTheEndOfLongOutputIsKept(t *testing.T) {
	p := Start(exec.CommandContext(t.Context(), "sh", "-c", "yes | head -c 100000 >&2; echo end >&2"), nil)
	<-p.Done()

	assert.Len(t, p.Said(), tailLimit)
	assert.Contains(t, p.Said(), "y\nend\n")
}

package pgtest

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// A guard is a shell that ends processes which are stopped when this process dies: a process
// that is stopped does not see that its postmaster has died. Each line that the shell reads
// replaces the list of processes.
type guard struct {
	cmd   *exec.Cmd
	input io.WriteCloser
}

// guardScript ignores the signals of a terminal, which go to all processes at once. A number may have
// become another process's, which is not stopped.
const guardScript = `trap '' HUP INT QUIT TERM
all=
while read -r line; do all=$line; done
for pid in $all; do
	state=T
	[ ! -d /proc/self ] || read -r _ _ state _ <"/proc/$pid/stat"
	[ "$state" != T ] || kill -9 "$pid"
done`

// newGuard starts a guard.
//
//nolint:contextcheck // it outlives whatever this process has begun
func newGuard() (*guard, error) {
	g := &guard{cmd: exec.CommandContext(context.Background(), "/bin/sh", "-c", guardScript)}
	var err error
	g.input, err = g.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return g, g.cmd.Start()
}

// set replaces the list of processes that the end of this process ends.
func (g *guard) set(pids []int) error {
	_, err := io.WriteString(g.input, strings.Trim(fmt.Sprint(pids), "[]")+"\n")
	return err
}

// close ends the guard, and no process.
func (g *guard) close() error {
	if err := g.set(nil); err != nil {
		return err
	}
	if err := g.input.Close(); err != nil {
		return err
	}
	return g.cmd.Wait()
}

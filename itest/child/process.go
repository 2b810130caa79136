package child

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Process is a client process.
type Process struct {
	cmd    *exec.Cmd
	in     *json.Encoder
	out    *json.Decoder
	stderr bytes.Buffer
}

// Start starts a client process. It is killed at the latest when the test ends.
func (j Job) Start(t testing.TB) *Process {
	t.Helper()
	arg, err := json.Marshal(j)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	p := &Process{cmd: exec.CommandContext(t.Context(), self)}
	p.cmd.Env = append(os.Environ(), env+"="+string(arg))
	p.cmd.Stderr = &p.stderr
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.in, p.out = json.NewEncoder(stdin), json.NewDecoder(stdout)
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.Kill()
		}
		if t.Failed() && p.stderr.Len() > 0 {
			t.Logf("process %d said: %s", p.Pid(), p.stderr.String())
		}
	})
	return p
}

// Pid is its number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the process at once, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Tell says something to the process: the holder of a Hold writes then.
func (p *Process) Tell(t testing.TB, v any) {
	t.Helper()
	require.NoError(t, p.in.Encode(v))
}

// Ends waits for a process that has done its job.
func (p *Process) Ends(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Wait(), "%s", &p.stderr)
}

// Report waits for the next report of a process.
func Report[T any](t testing.TB, p *Process) T {
	t.Helper()
	var r T
	require.NoError(t, p.out.Decode(&r), "%s", &p.stderr)
	return r
}

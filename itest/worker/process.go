package worker

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/process"
)

// Process is a client process.
type Process struct {
	*process.Process
	in  *json.Encoder
	out *json.Decoder
}

// Start starts a client process. It is killed at the latest when the test ends.
func (j Job) Start(t testing.TB) *Process {
	t.Helper()
	arg, err := json.Marshal(j)
	require.NoError(t, err)
	cmd, err := process.Self(t.Context(), env, string(arg))
	require.NoError(t, err)
	p := process.StartPiped(cmd)
	t.Cleanup(func() {
		p.Halt()
		if t.Failed() && p.Stderr() != "" {
			t.Logf("process %d wrote: %s", p.Pid(), p.Stderr())
		}
	})
	return &Process{p, json.NewEncoder(p), json.NewDecoder(p)}
}

// Send sends a line to the process: the holder of a Hold writes then.
func (p *Process) Send(t testing.TB, v any) {
	t.Helper()
	require.NoError(t, p.in.Encode(v))
}

// Ends waits for the end of a process that has done its job.
func (p *Process) Ends(t testing.TB) {
	t.Helper()
	require.NoError(t, p.Wait(), p.Stderr())
}

// Report waits for the next report of a process.
func Report[T any](t testing.TB, p *Process) T {
	t.Helper()
	var r T
	require.NoError(t, p.out.Decode(&r), p.Stderr())
	return r
}

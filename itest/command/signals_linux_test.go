package command

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A config file or a password may come from a pipe (bash's <(...)), whose writer can take long.
func TestASignalBeforeTheRequestEndsTheProgram(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		config := filepath.Join(t.TempDir(), "config")
		require.NoError(t, syscall.Mkfifo(config, 0o600))
		r := prepared(t, "", "run", "a", "--", "echo", "ran")
		r.Env = append(r.Env, "FAIRLOCK_CONFIG="+config)
		r.start(t)
		w, err := os.OpenFile(config, os.O_WRONLY, 0) // returns when the program has opened it
		require.NoError(t, err)
		t.Cleanup(func() { _ = w.Close() })

		require.NoError(t, r.Process.Signal(sig))

		r.code(t)
		status, ok := r.ProcessState.Sys().(syscall.WaitStatus)
		require.True(t, ok)
		assert.True(t, status.Signaled() && status.Signal() == sig, "%v: %v", sig, r.ProcessState)
		assert.Empty(t, r.out.String())
	}
}

// SIGHUP is for the command, which may read its configuration again.
func TestAHangupDoesNotHideALaterErrorOfElect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "command")
	script := "#!/bin/sh\ntrap 'echo again; exit 0' HUP\nrm " + path + "\necho up\nwhile :; do sleep 0.05; done\n"
	require.NoError(t, os.WriteFile(path, []byte(script), 0o700)) //nolint:gosec // a program
	r := begin(t, "mem://", "elect", "a", "--", path)
	r.out.WaitFor(t, "up")

	require.NoError(t, r.Process.Signal(syscall.SIGHUP))

	assert.Equal(t, 127, r.code(t))
	assert.Equal(t, "up\nagain\n", r.out.String())
	assert.Contains(t, r.err.String(), "no such file or directory")
}

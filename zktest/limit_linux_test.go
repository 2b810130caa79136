package zktest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/internal/process"
)

// To the kernel, process id 0 is the process that asks.
func TestFillDoesNotLimitTheTestItself(t *testing.T) {
	m := &Member{process: process.Start(exec.CommandContext(t.Context(), "/nowhere/to/be/found"))}
	require.Zero(t, m.Pid())
	var before, after unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))

	err := m.Fill()

	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &after))
	assert.Equal(t, before, after)
	require.ErrorIs(t, err, os.ErrProcessDone)
}

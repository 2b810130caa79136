package show

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestANameIsPrintableOnATerminalOnly(t *testing.T) {
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ours.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	const name = "a\x1b[2Jb"
	var pipe bytes.Buffer

	Name(&pipe, name)
	Name(terminal, name)

	assert.Equal(t, name+"\n", pipe.String())
	screen := make([]byte, 64)
	k, err := ours.Read(screen)
	require.NoError(t, err)
	assert.NotContains(t, string(screen[:k]), "\x1b")
	assert.Contains(t, string(screen[:k]), "[2Jb")
}

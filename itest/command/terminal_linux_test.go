package command

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal creates a pseudo-terminal of a size. What a program writes to theirs can be read
// from ours.
func terminal(t *testing.T, columns, rows uint16) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ours.Close() })
	fd := int(ours.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = theirs.Close() })
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}))
	return ours, theirs
}

// onTerminal runs the demo on a terminal and returns all that it wrote there.
func onTerminal(t *testing.T, columns, rows uint16, args ...string) string {
	t.Helper()
	ours, theirs := terminal(t, columns, rows)
	cmd := demo(t, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	require.NoError(t, cmd.Start())
	require.NoError(t, theirs.Close())
	var text strings.Builder
	_, _ = io.Copy(&text, ours) // the copy ends with an error when the other side is closed

	require.Equal(t, 0, code(t, cmd.Wait()), text.String())
	return text.String()
}

// expiryTexts returns the text for an entry whose owner cannot release, by service.
func expiryTexts() map[string]string {
	return map[string]string{"etcd": "lease runs out,", "zk": "session runs out,", "postgres": "session runs out,", "redis": "session runs out,"}
}

func TestOnATerminalOf80By24TheDemoIsAPicture(t *testing.T) {
	inTurn(t, picture)
}

func picture(t *testing.T, on string) {
	text := onTerminal(t, 80, 24, "--on", on)
	progress := regexp.MustCompile("\r\x1b\\[K((starting|waiting|checking)[^\r\x1b]*)?") // on a busy machine
	text = progress.ReplaceAllString(text, "")

	require.True(t, strings.HasPrefix(text, "\x1b[?1049h\x1b[?25l"), "the alternate screen, no cursor")
	picture, summary, left := strings.Cut(text, "\x1b[?25h\x1b[?1049l")
	require.True(t, left, "the terminal was not restored")
	colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
	assert.Regexp(t, colours, picture)
	summary = strings.ReplaceAll(colours.ReplaceAllString(summary, ""), "\r\n", "\n")
	for _, line := range promises() {
		assert.Regexp(t, line, summary)
	}

	frames := strings.Split(picture, "\x1b[H")[1:]
	assert.Greater(t, len(frames), 50, "the picture must move")
	states := map[string]bool{}
	for _, f := range frames {
		f = colours.ReplaceAllString(f, "")
		f = strings.NewReplacer("\r", "", "\x1b[K", "", "\x1b[J", "", "\x1b[2J", "").Replace(f)
		require.NotContains(t, f, "\x1b")
		lines := strings.Split(f, "\n")
		require.LessOrEqual(t, len(lines), 24)
		for _, line := range lines {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 79, "%s", line)
		}
		for _, state := range []string{" HOLDS for ", " waits for ", "KILLED, " + expiryTexts()[on], "STOPPED, " + expiryTexts()[on], "STOPPED, and does not know", "REFUSED: token"} {
			states[state] = states[state] || strings.Contains(f, state)
		}
	}
	for state, seen := range states {
		assert.True(t, seen, "%q was never shown", state)
	}
}

package command

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// typed is the program on its own terminal, in its own process session.
type typed struct {
	*running
	*os.File // where the test types
	screen   progtest.Buffer
	read     chan struct{} // closed when screen has all output
}

func atTerminal(t *testing.T, url string, args ...string) *typed {
	t.Helper()
	return onOwnTerminal(t, prepared(t, url, args...), 80, 24)
}

// onOwnTerminal starts a program on a terminal of its own.
func onOwnTerminal(t *testing.T, r *running, columns, rows uint16) *typed {
	t.Helper()
	ours, theirs := terminal(t, columns, rows)
	x := &typed{running: r, File: ours, read: make(chan struct{})}
	x.Stdin, x.Stdout, x.Stderr = theirs, theirs, theirs
	x.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	x.start(t)
	require.NoError(t, theirs.Close())
	go func() { // ends when the other side is closed
		defer close(x.read)
		_, _ = io.Copy(&x.screen, ours)
	}()
	t.Cleanup(func() {
		_ = x.Process.Kill()
		<-x.read
	})
	return x
}

// code waits for the end, and until the screen has all output.
func (x *typed) code(t *testing.T) int {
	t.Helper()
	code := x.running.code(t)
	hang.Receive(t, x.read, "a process keeps the terminal open: %s", &x.screen)
	return code
}

func (x *typed) types(t *testing.T, text string) {
	t.Helper()
	_, err := x.WriteString(text)
	require.NoError(t, err)
}

func TestOnATerminalTheWaitingIsOneLine(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "nightly")
		holdOf(t, s, "busy")
		x := atTerminal(t, url, "run", "busy", "--", "echo", "ran")
		const line = `\r\x1b\[Kbusy: waiting, 2nd of 2, held by \S+ pid \d+ \(nightly\)(, which asked \S+ ago| for \S+)`
		x.screen.WaitFor(t, line+`[^\n]*`+line) // painted again, with no line between

		x.types(t, "\x03")

		assert.Equal(t, 130, x.code(t))
		x.screen.WaitFor(t, `\r\x1b\[Kfairlock: busy: interrupted: left the queue\r\n$`)
		assert.NotContains(t, x.screen.String(), "ran")
		for l := range strings.SplitSeq(x.screen.String(), "\r") {
			assert.LessOrEqual(t, len(l), 80+len("\x1b[K")+1)
		}
		hasEntries(t, s, "busy", 1)
	})
}

func TestTheStatusLineIsErasedWhenTheCommandStarts(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		h := holdOf(t, s, "busy")
		x := atTerminal(t, url, "run", "busy", "--", "echo", "ran")
		x.screen.WaitFor(t, "busy: waiting, 2nd of 2")

		recipetest.Unlock(t, h)

		assert.Equal(t, 0, x.code(t))
		x.screen.WaitFor(t, `\r\x1b\[Kran\r\n(fairlock: busy: the release is not acknowledged: [^\n]*\n)?$`)
	})
}

func TestATypedInterruptEndsTheCommandAndReleases(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		x := atTerminal(t, url, "run", "x", "--", "cat")
		x.types(t, "hello\n")
		x.screen.WaitFor(t, `hello\r\nhello\r\n`) // the terminal's echo, and cat's
		hasEntries(t, s, "x", 1)

		x.types(t, "\x03")

		assert.Equal(t, 130, x.code(t))
		hasEntries(t, s, "x", 0)
	})
}

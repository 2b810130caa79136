package command

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gdamore/tcell/v3/vt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/yield"
)

// shows waits until the screen of a program shows a text. The size is that at the start.
func (x *typed) shows(t *testing.T, columns, rows int, want string) {
	t.Helper()
	hang.Until(t, func() bool {
		return strings.Contains(emulated(x.screen.String(), columns, rows), want)
	}, "%q is not shown, but %s", want, &x.screen)
}

// emulated returns what a terminal shows after it has received a text.
func emulated(text string, columns, rows int) string {
	term := vt.NewMockTerm(vt.MockOptSize{X: vt.Col(columns), Y: vt.Row(rows)})
	_ = term.Start()
	_, _ = term.Write([]byte(text))
	_ = term.Drain()
	defer func() { _ = term.Stop() }()
	var b strings.Builder
	for y := range rows {
		var line strings.Builder
		for x := range columns {
			line.WriteString(term.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).C)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

func TestTopIsDrivenByKeysOnATerminal(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		a, b := openSession(t, url, "one"), openSession(t, url, "two")
		h := holdOf(t, a, "jobs/a")
		waiting(t, a, "jobs/a", 2, func(ctx context.Context) { _, _ = mutex.New(b, "jobs/a").Lock(ctx) })
		x := atTerminal(t, url, "top", "--interval", "50ms")
		x.shows(t, 80, 24, "1 lock, 1 holder, 1 waiter, by waiters\n")
		x.shows(t, 80, 24, fmt.Sprintf(" pid %d (one) ", os.Getpid()))
		holdOf(t, a, "jobs/b")
		x.shows(t, 80, 24, "2 locks, 2 holders, 1 waiter, by waiters\n")

		x.types(t, "/jobs/a\r")
		x.shows(t, 80, 24, `1 lock, 1 holder, 1 waiter, filter "jobs/a" of 2`)
		x.types(t, "\r")
		x.shows(t, 80, 24, "jobs/a  mutex, 1 holder, 1 waiting\n")
		x.types(t, "a")
		x.shows(t, 80, 24, fmt.Sprintf(`(token %d) to yield "jobs/a"? [y/N]`, h.Token()))
		x.types(t, "y")
		_, err := yield.Next(hang.Context(t), h)
		require.NoError(t, err)
		x.shows(t, 80, 24, "asked to yield by ")
		x.types(t, "e")
		x.shows(t, 80, 24, "for a moment. [y/N]")
		x.types(t, "n")
		x.shows(t, 80, 24, "nothing was done")
		require.NoError(t, h.Context().Err())
		x.types(t, "e")
		x.shows(t, 80, 24, "for a moment. [y/N]")
		x.types(t, "y")
		<-h.Context().Done()
		x.shows(t, 80, 24, "jobs/a  mutex, 1 holder, 0 waiting\n")

		require.NoError(t, unix.IoctlSetWinsize(int(x.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 40, Row: 12}))
		x.shows(t, 40, 12, "\"jobs/a\"\n") // the end of what was done, on a line of its own or behind a long token
		x.types(t, "q")
		assert.Equal(t, 0, x.code(t))
		assert.True(t, restored(x.screen.String()), "%q", x.screen.String())
	})
}

func TestACommandShowsThatItWaitsForTheService(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections, and no program reads
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	for _, scheme := range []string{"etcd", "zk", "postgres", "redis"} {
		x := atTerminal(t, scheme+"://"+silent.Addr().String(), "ls", "--connect-timeout", "3s")
		x.screen.WaitFor(t, "connecting to (etcd|ZooKeeper|PostgreSQL|Redis) at "+regexp.QuoteMeta(silent.Addr().String())+", \\d+s")
		assert.Equal(t, 69, x.code(t))
		assert.Contains(t, x.screen.String(), "\x1b[Kfairlock: cannot reach ")
	}
}

// restored reports whether a program has left the alternate screen and shown the cursor
// again.
func restored(text string) bool {
	return strings.Contains(text, "\x1b[?1049h") &&
		strings.LastIndex(text, "\x1b[?1049l") > strings.LastIndex(text, "\x1b[?1049h") &&
		strings.LastIndex(text, "\x1b[?25h") > strings.LastIndex(text, "\x1b[?25l")
}

func TestTopRestoresTheTerminalWhenItIsStopped(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		for _, stop := range []func(x *typed){
			func(x *typed) { x.types(t, "\x03") },
			func(x *typed) { require.NoError(t, x.Process.Signal(syscall.SIGINT)) },
			func(x *typed) { require.NoError(t, x.Process.Signal(syscall.SIGTERM)) },
		} {
			x := atTerminal(t, url, "top", "--no-color")
			x.shows(t, 80, 24, "0 locks, 0 holders, 0 waiters")
			before, err := unix.IoctlGetTermios(int(x.Fd()), unix.TCGETS)
			require.NoError(t, err)
			require.Zero(t, before.Lflag&unix.ICANON, "it is raw")

			stop(x)

			assert.Equal(t, 0, x.code(t))
			after, err := unix.IoctlGetTermios(int(x.Fd()), unix.TCGETS)
			require.NoError(t, err)
			assert.NotZero(t, after.Lflag&unix.ICANON)
			assert.NotZero(t, after.Lflag&unix.ECHO)
			assert.True(t, restored(x.screen.String()), "%q", x.screen.String())
			assert.NotRegexp(t, "\x1b\\[3[0-9]", x.screen.String(), "no colours")
		}
	})
}

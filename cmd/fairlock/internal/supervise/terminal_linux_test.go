package supervise

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/progtest"
)

// keyboard is our side of a pseudo-terminal.
type keyboard struct {
	*os.File
	screen progtest.Buffer
	read   chan struct{} // closed when no process has the other side
}

// openKeyboard makes a pseudo-terminal.
func openKeyboard(t *testing.T) (ours *keyboard, theirs *os.File) {
	t.Helper()
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	fd := int(f.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	k := &keyboard{File: f, read: make(chan struct{})}
	go func() { // ends when no process has the other side
		defer close(k.read)
		_, _ = io.Copy(&k.screen, f)
	}()
	t.Cleanup(func() {
		hang.Receive(t, k.read, "a process still has the terminal: %s", &k.screen)
		_ = f.Close()
	})
	return k, theirs
}

func (k *keyboard) types(t *testing.T, text string) {
	t.Helper()
	_, err := k.WriteString(text)
	require.NoError(t, err)
}

// at starts a supervisor on a terminal of its own, in a session of its own.
func at(t *testing.T, p plan, change func(*super)) (*super, *keyboard) {
	t.Helper()
	k, theirs := openKeyboard(t)
	s := prepare(t, p)
	s.Stdin, s.Stdout, s.Stderr = theirs, theirs, theirs
	s.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if change != nil {
		change(s)
	}
	s.begin(t)
	require.NoError(t, theirs.Close())
	return s, k
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"

	ctrlBackslash = "\x1c"
	ctrlZ         = "\x1a"
)

func TestAnInteractiveCommandHasTheTerminal(t *testing.T) {
	t.Parallel()
	s, k := at(t, plan{Args: []string{"/bin/cat"}, Left: time.Hour}, nil)
	k.screen.WaitFor(t, "state held")

	k.types(t, "hello\n")
	k.screen.WaitFor(t, `(?s)hello\r\n.*hello\r\n`) // the terminal's echo, and cat's
	k.types(t, ctrlD)

	assert.Equal(t, 0, s.code(t), k.screen.String())
}

func TestATypedSignalReachesTheCommandOnce(t *testing.T) {
	t.Parallel()
	s, k := at(t, sh(`trap 'echo got INT' INT; echo ready; read x; read y; exit 9`), nil)
	k.screen.WaitFor(t, "ready")

	k.types(t, ctrlC)
	k.screen.WaitFor(t, "got INT")
	k.types(t, "x\ny\n")
	code := s.code(t)

	assert.Equal(t, 1, strings.Count(k.screen.String(), "got INT"))
	assert.Contains(t, []int{9, 130}, code) // read may end with the signal
}

func TestATypedInterruptExits130(t *testing.T) {
	t.Parallel()
	// No shell: between vfork and exec dash loses an interrupt, with and without us.
	s, k := at(t, plan{Args: []string{"/bin/sleep", "1000"}, Left: time.Hour}, nil)
	k.screen.WaitFor(t, "state held")

	k.types(t, ctrlC)

	assert.Equal(t, 130, s.code(t), &k.screen)
}

func TestCtrlZWithoutAShellStopsNothing(t *testing.T) {
	t.Parallel()
	s, k := at(t, sh(`echo ready; read x; echo "x is $x"`), nil)
	k.screen.WaitFor(t, "ready")

	k.types(t, ctrlZ)
	k.screen.WaitFor(t, "state paused\r\nstate held")
	k.types(t, "on\n")

	assert.Equal(t, 0, s.code(t))
	k.screen.WaitFor(t, "x is on")
}

// underShell runs a supervisor as a job of an interactive shell.
func underShell(t *testing.T, p plan, line string) (*super, *keyboard) {
	t.Helper()
	return at(t, p, func(s *super) {
		s.Env = append(s.Env, "PS1=prompt> ", "ENV=", "SUPER="+s.Path)
		s.Path, s.Args = "/bin/sh", []string{"sh", "-i", "-c", "unset ENV; set -m; " + line}
	})
}

func TestCtrlZGoesBackToTheShellAndFgGoesOn(t *testing.T) {
	t.Parallel()
	s, k := underShell(t, sh(`echo ready; read x; echo "x is $x"`), `"$SUPER"; echo "shell has $?"; fg >/dev/null; echo "then $?"`)
	k.screen.WaitFor(t, "ready")

	k.types(t, ctrlZ)
	k.screen.WaitFor(t, "shell has 147") // 128 plus SIGSTOP: the shell saw its job stop
	k.types(t, "on\n")
	k.screen.WaitFor(t, "then 0")

	assert.Equal(t, 0, s.code(t))
	k.screen.WaitFor(t, "x is on")
}

func TestAPausedCommandIsKilledAtTheDeadline(t *testing.T) {
	t.Parallel()
	p := sh(`echo "pid $$"; read x`)
	p.Left, p.Grace, p.Renewed = 10*time.Second, 3*time.Second, true // until we are stopped
	s, k := underShell(t, p, `"$SUPER"; read go; fg >/dev/null; echo "then $?"`)
	k.screen.WaitFor(t, `pid \d+\r`)
	_, rest, _ := strings.Cut(k.screen.String(), "pid ")
	pid, err := strconv.Atoi(rest[:strings.IndexByte(rest, '\r')])
	require.NoError(t, err)

	k.types(t, ctrlZ)
	k.screen.WaitFor(t, "state paused")
	paused := time.Now() // the last renewal was before
	eventually(t, "dead", func() bool { return len(alive(pid)) == 0 })
	time.Sleep(time.Until(paused.Add(p.Left))) // the guard ignores renewals by a few milliseconds
	k.types(t, "go\n")
	k.screen.WaitFor(t, "then 79")

	assert.Equal(t, 0, s.code(t))
}

func TestTheShellGetsItsTerminalBack(t *testing.T) {
	t.Parallel()
	s, k := underShell(t, sh(`exit 3`), `"$SUPER"; echo "had $?"; read x; echo "x is $x"`)
	k.screen.WaitFor(t, "had 3")

	k.types(t, "mine\n")

	assert.Equal(t, 0, s.code(t))
	k.screen.WaitFor(t, "x is mine")
}

// An editor that is killed leaves the terminal without echo.
func TestAKilledCommandLeavesTheModesOfTheTerminal(t *testing.T) {
	t.Parallel()
	const echo = unix.ECHO | unix.ICANON
	for script, want := range map[string]uint32{
		"stty raw -echo; kill -9 $$": echo,
		"trap 'exit 0' TERM; stty raw -echo; kill -TERM $PPID; while :; do sleep 0.05; done": echo,
		"stty raw -echo": 0, // as it wanted
	} {
		s, k := underShell(t, sh(script), `"$SUPER"; echo "had $?"; read x`)
		k.screen.WaitFor(t, `had \d+`)

		modes, err := unix.IoctlGetTermios(int(k.Fd()), unix.TCGETS)

		require.NoError(t, err)
		assert.Equal(t, want, modes.Lflag&echo, script)
		k.types(t, "\n")
		assert.Equal(t, 0, s.code(t))
	}
}

func TestInTheBackgroundItDoesNotTakeTheTerminal(t *testing.T) {
	t.Parallel()
	s, k := underShell(t, sh(`echo ready; sleep 1000`), `"$SUPER" & read x; echo "x is $x"; kill %1; wait $!; echo "had $?"`)
	k.screen.WaitFor(t, "ready")

	k.types(t, "mine\n")
	k.screen.WaitFor(t, "x is mine")
	k.screen.WaitFor(t, "had 143")

	assert.Equal(t, 0, s.code(t))
}

func TestInAPipelineTheCommandGetsTheTerminalWhenItReads(t *testing.T) {
	t.Parallel()
	// We are the first process of the pipeline. The last one reads the keyboard while the
	// command runs, and before the command reads it.
	read := filepath.Join(t.TempDir(), "read")
	s, k := underShell(t, sh(`echo go; while ! test -e `+read+`; do sleep 0.05; done; read x; echo "command has $x"`),
		`"$SUPER" | { read go; read y </dev/tty; echo "pager has $y"; >`+read+`; cat; }`)
	k.types(t, "one\n")
	k.screen.WaitFor(t, "pager has one")
	k.types(t, "two\n")

	k.screen.WaitFor(t, "command has two")
	assert.Equal(t, 0, s.code(t))
}

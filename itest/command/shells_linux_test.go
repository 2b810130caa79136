package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/internal/hang"
)

// inScript starts a shell script on a terminal of its own. "$FAIRLOCK" is the program.
func inScript(t *testing.T, url, shell, script string) *typed {
	t.Helper()
	r := prepared(t, url)
	r.Env = append(r.Env, "FAIRLOCK="+r.Path)
	r.Path, r.Args = "/bin/"+shell, []string{shell, "-c", script}
	return onOwnTerminal(t, r, 80, 24)
}

// A shell goes on after a typed signal if the program that it waits for seems to have handled
// the signal. The program waits, runs a command, or reads.
func TestATypedInterruptEndsTheScriptInEveryState(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		holdOf(t, s, "busy")
		for _, c := range []struct{ args, ready string }{
			{`run busy -- echo ran`, "busy: waiting, 2nd of 2"},
			{`hold busy`, "busy: waiting, 2nd of 2"},
			{`elect --observe post`, `-\r\n`},
			{`run free -- sleep 1000`, ""},
			{`elect free -- sleep 1000`, ""},
			{`run --min-hold 1000 free -- true`, "--min-hold keeps the lock"},
			{`run free -- sh -c "sleep 1000 &"`, "the lock is held until they end"},
			{`watch`, "granted"},
			{`ui`, `http://`},
			{`ask busy`, "no holder has yielded"},
		} {
			x := inScript(t, url, "bash", `for i in 1 2; do "$FAIRLOCK" `+c.args+`; echo "next $?"; done`)
			if c.ready == "" {
				hasEntries(t, s, "free", 1)
				x.runs(t)
			} else {
				x.screen.WaitFor(t, c.ready)
			}

			x.types(t, "\x03")

			assert.Equal(t, 130, x.code(t), "%s: %s", c.args, &x.screen)
			assert.NotContains(t, x.screen.String(), "next", c.args)
			hasEntries(t, s, "free", 0)
			hasEntries(t, s, "busy", 1)
		}
	})
}

// runs waits until the terminal has another group in the foreground than that of the script:
// the command's.
func (x *typed) runs(t *testing.T) {
	t.Helper()
	hang.Until(t, func() bool {
		g, err := unix.IoctlGetInt(int(x.Fd()), unix.TIOCGPGRP)
		return err == nil && g != x.Process.Pid
	}, "a command in the foreground: %s", &x.screen)
}

// Services, containers, cron and jobs in the background have /dev/null, or nothing.
func TestAHoldWithoutAStdinLastsUntilASignal(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		for _, stdin := range []string{"</dev/null", "<&-", "</etc/passwd"} {
			r := prepared(t, url)
			r.Env = append(r.Env, "FAIRLOCK="+r.Path)
			r.Path, r.Args = "/bin/sh", []string{"sh", "-c", `exec "$FAIRLOCK" hold h ` + stdin}
			r.start(t)
			r.out.WaitFor(t, `"kind":"mutex"`)

			// Each of these takes longer than an end of stdin was noticed in.
			for range 3 {
				got := execute(t, url, "run", "-n", "h", "--", "true")
				assert.Equal(t, 75, got.code, stdin)
			}

			require.NoError(t, r.Process.Signal(syscall.SIGTERM))
			assert.Equal(t, 0, r.code(t), stdin)
			assert.Empty(t, r.err.String(), stdin)
			hasEntries(t, s, "h", 0)
		}
	})
}

func TestTheLockIsHeldUntilTheGroupOfTheCommandHasEnded(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		file := filepath.Join(dir, "finish")
		leaves := `(while test -d ` + dir + ` && ! test -e ` + file + `; do sleep 0.02; done; echo worker) & exit 4`
		r := begin(t, url, "run", "-q", "--once", "k", "jobs", "--", "sh", "-c", strings.Replace(leaves, "exit 4", "exit 0", 1))
		r.err.WaitFor(t, `fairlock: jobs: the command has ended, and processes that it has left run on: the lock is held until they end \(--close releases it\)\n`)

		got := execute(t, url, "run", "-n", "jobs", "--", "true")
		assert.Equal(t, 75, got.code, got.stderr)
		next := begin(t, url, "run", "--once", "k", "jobs", "--", "echo", "twice")
		require.NoError(t, os.WriteFile(file, nil, 0o600))

		assert.Equal(t, 0, r.code(t))
		assert.Equal(t, "worker\n", r.out.String())
		assert.Equal(t, 0, next.code(t))
		assert.Contains(t, next.err.String(), "skipped: already ran")
		require.NoError(t, os.Remove(file))

		for _, flag := range []string{"-o", "--close"} {
			r = begin(t, url, "run", flag, "jobs", "--", "sh", "-c", leaves)
			assert.Equal(t, 4, r.code(t), r.err.String())
			assert.Equal(t, 0, execute(t, url, "run", "-n", "jobs", "--", "true").code, "free while the worker works")
			assert.Empty(t, r.err.String())
		}
		require.NoError(t, os.WriteFile(file, nil, 0o600))
	})
}

// A loss ends what the command has left, as it would end the command.
func TestALossEndsWhatTheCommandHasLeft(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		r := begin(t, url, "run", "jobs", "--", "sh", "-c", `(trap '' TERM; while :; do sleep 0.05; done) & echo $!`)
		r.err.WaitFor(t, "the lock is held until they end")
		worker, err := strconv.Atoi(strings.TrimSpace(r.out.String()))
		require.NoError(t, err)
		entries, err := s.Queue(t.Context(), "jobs")
		require.NoError(t, err)
		require.Len(t, entries, 1)

		require.NoError(t, s.Evict(t.Context(), entries[0]))

		assert.Equal(t, 79, r.code(t))
		assert.False(t, alive([]int{worker}))
	})
}

// adopterEnv makes the test binary start orphans, as whose parent the program goes on: the
// program is then what process 1 of a container is. Its value is the path of the program.
const adopterEnv = "FAIRLOCK_ITEST_ADOPTER"

// adopt starts orphans, of which some have ended when the program begins, and replaces itself
// by the program.
func adopt(binary string, args []string) {
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err == nil {
		err = exec.CommandContext(context.Background(), "sh", "-c", "for i in 0 0 1 2; do setsid sleep $i >/dev/null 2>&1 & done").Run()
	}
	if err == nil {
		err = os.Unsetenv(adopterEnv)
	}
	if err == nil {
		err = unix.Exec(binary, append([]string{"fairlock"}, args...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestAsProcessOneOrphansAreReapedInEveryState(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		holdOf(t, s, "busy")
		exe, err := os.Executable()
		require.NoError(t, err)
		for _, args := range [][]string{
			{"run", "busy", "--", "true"},
			{"elect", "busy", "--", "true"},
			{"hold", "busy"},
			{"hold", "free"},
			{"run", "--min-hold", "1000", "free", "--", "true"},
			{"elect", "--observe", "post"},
			{"watch"},
			{"ui"},
			{"ask", "busy"},
			{"bench", "--duration", "1000"},
		} {
			r := prepared(t, url, args...)
			r.Env = append(r.Env, adopterEnv+"="+r.Path)
			r.Path = exe
			r.start(t)

			hang.Until(t, func() bool {
				path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", r.Process.Pid))
				return err == nil && path != exe && len(children(t, r.Process.Pid)) == 0
			}, "%q: zombies: %s", args, &r.err)

			require.NoError(t, r.Process.Signal(syscall.SIGTERM))
			r.code(t)
		}
	})
}

package command

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// running is a running program.
type running struct {
	*exec.Cmd
	out, err progtest.Buffer
	done     chan struct{}
}

// begin starts the program on a service. The environment has only what the program needs.
func begin(t *testing.T, url string, args ...string) *running {
	t.Helper()
	r := prepared(t, url, args...)
	r.start(t)
	return r
}

func prepared(t *testing.T, url string, args ...string) *running {
	t.Helper()
	r := &running{Cmd: program(t, args...), done: make(chan struct{})}
	r.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TZ=UTC", "TERM=xterm", "FAIRLOCK_ON=" + patient(url)}
	r.Stdout, r.Stderr = &r.out, &r.err
	r.WaitDelay = 5 * time.Second
	return r
}

func (r *running) start(t *testing.T) {
	t.Helper()
	require.NoError(t, r.Start())
	go func() { // ends with the process, which the cleanup kills
		defer close(r.done)
		_ = r.Wait() // its exit code is enough
	}()
	t.Cleanup(func() {
		_ = r.Process.Kill()
		<-r.done
	})
}

// code waits for the end and returns the exit code, as a shell does.
func (r *running) code(t *testing.T) int {
	t.Helper()
	hang.Receive(t, r.done, "the program does not end: stdout: %s\nstderr: %s", &r.out, &r.err)
	return progtest.Code(r.ProcessState)
}

// hasEntries waits until a queue has n entries.
func hasEntries(t *testing.T, s *session.Session, name string, n int) {
	t.Helper()
	hang.Until(t, func() bool {
		entries, err := s.Queue(t.Context(), name)
		return err == nil && len(entries) == n
	}, "%d entries in the queue", n)
}

// holdOf acquires a lock with the library.
func holdOf(t *testing.T, s *session.Session, name string) *session.Hold {
	t.Helper()
	h, err := mutex.New(s, name).Lock(hang.Context(t))
	require.NoError(t, err)
	return h
}

func TestALockInMemoryWarnsThatItExcludesNoProcess(t *testing.T) {
	t.Parallel()
	assert.Equal(t, result{
		stderr: "fairlock: a: warning: mem:// is this process alone: the lock keeps no other process out\n",
	}, execute(t, "mem://", "run", "a", "--", "true"))
}

func TestRunExitsWithTheCodesOfTheTable(t *testing.T) {
	withServices(t, runCodes)
}

func runCodes(t *testing.T, url string) {
	s := openSession(t, url, "other")
	holdOf(t, s, "busy")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	for _, c := range []struct {
		args string
		want int
		text string
	}{
		{"run free -- true", 0, ""},
		{"run free true", 64, `want "--" before the command: fairlock run free -- true`},
		{"run free -- sh -c exit\\ 3", 3, ""},
		{"run free -- sh -c kill\\ -9\\ $$", 137, ""},
		{"run free -- sh -c kill\\ $$", 143, ""},
		{"run", 64, "want the NAME of the lock"},
		{"run free", 64, "want a command: fairlock run free -- COMMAND"},
		{"run -k 9 --ttl 9 free -- true", 64, "--grace 9s must be shorter than --ttl 9s"},
		{"run -k 8 --ttl 9 free -- true", 64, "--grace 8s is too long for a session of 9s"},
		{"run --ttl 1ms free -- true", 64, "fairlock: --ttl: "},
		{"run --take 2 free -- true", 64, "--take is for --permits"},
		{"elect --generation -1 free -- true", 64, "--generation must be at least 0"},
		{"run --permits 2 --take 3 free -- true", 64, "number of permits out of range"},
		{"run --signal FOO free -- true", 64, "--signal FOO: want a name such as TERM, or a number"},
		{"run --status-fd 9 free -- true", 64, "--status-fd 9 is not open"},
		{"run -n -w 3 free -- true", 64, "--nonblock and --wait do not go together"},
		{"run --on etcd://127.0.0.1:1 --connect-timeout 300ms free -- true", 69, "cannot reach etcd at 127.0.0.1:1"},
		{"run -n busy -- true", 75, "not acquired: held by"},
		{"run -w 0 busy -- true", 75, "not acquired: held by"},
		{"run -w 0.2 busy -- true", 75, "waited for 200ms\n"}, // without the holder: on a busy machine it has not joined by then
		{"run --timeout 200ms -s busy -- true", 75, "not acquired"},
		{"run --nb busy -- true", 75, "fairlock: busy: not acquired: held by "},
		{"run -n -E 9 busy -- true", 9, "not acquired: held by"},
		{"run -n --skip-ok busy -- true", 0, "skipped: "},
		{"run --max-run 0.2 free -- sleep 100", 124, "the command ran for longer than 200ms"},
		{"run busy -- " + file, 126, file + ": cannot be run"},
		{"run busy -- no-such-command", 127, "no-such-command: command not found"},
		{"run --token-file /none/token busy -- true", 64, "--token-file /none/token: no such file or directory"},
		{"hold -n busy", 75, "not acquired: held by"},
	} {
		args := strings.Fields(strings.ReplaceAll(c.args, `\ `, "\x00"))
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "\x00", " ")
		}

		got := execute(t, url, args...)

		assert.Equal(t, c.want, got.code, "%s: %s", c.args, got.stderr)
		if c.text == "" {
			assert.Empty(t, got.stderr, c.args)
		} else {
			assert.Contains(t, got.stderr, c.text, c.args)
		}
		assert.Empty(t, got.stdout, c.args)
	}
	hasEntries(t, s, "busy", 1)
	hasEntries(t, s, "free", 0)
}

func TestTheCommandKnowsItsLock(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		file := filepath.Join(dir, "token")
		r := prepared(t, url, "run", "--permits", "2", "--id", "me", "--token-file", file, "--status-fd", "3", "gpu/a", "--",
			"sh", "-c", "cat "+file+"; env | grep ^FAIRLOCK_; ls -l /proc/self/fd >"+dir+"/files")
		r.Env = append(r.Env, "FAIRLOCK_TOKEN=1", "FAIRLOCK_NAME=outer")
		status, err := os.Create(filepath.Join(dir, "status"))
		require.NoError(t, err)
		r.ExtraFiles = []*os.File{status}
		r.start(t)

		require.Equal(t, 0, r.code(t), r.err.String())
		lines := strings.Split(r.out.String(), "\n")
		env := map[string]string{}
		for _, l := range lines[1:] {
			k, v, _ := strings.Cut(l, "=")
			env[k] = v
		}
		token, err := strconv.ParseInt(lines[0], 10, 64)
		require.NoError(t, err)
		assert.Positive(t, token)
		assert.Equal(t, lines[0], env["FAIRLOCK_TOKEN"])
		assert.Equal(t, "gpu/a", env["FAIRLOCK_NAME"])
		assert.Equal(t, "semaphore", env["FAIRLOCK_KIND"])
		assert.Equal(t, "0", env["FAIRLOCK_SLOT"])
		assert.Equal(t, "me", env["FAIRLOCK_ID"])
		assert.Contains(t, []string{"etcd", "zookeeper", "postgres", "redis"}, env["FAIRLOCK_BACKEND"])
		assert.NotEmpty(t, env["FAIRLOCK_KEY"])
		assert.Equal(t, "15000", env["FAIRLOCK_TTL_MS"])
		files, err := os.ReadFile(filepath.Join(dir, "files"))
		require.NoError(t, err)
		assert.NotContains(t, string(files), status.Name(), "a reader waits for its end")

		text, err := os.ReadFile(status.Name())
		require.NoError(t, err)
		var states []string
		for _, l := range rows(string(text)) {
			var s schema.Status
			require.NoError(t, json.Unmarshal([]byte(l), &s))
			assert.Equal(t, token, s.Token)
			states = append(states, s.State)
		}
		assert.Equal(t, []string{"held", "released"}, states)
	})
}

func TestACommandThatWouldWaitForItselfIsRefusedAtOnce(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		exe := os.Getenv(binaryEnv)

		got := execute(t, url, "run", "a", "--", exe, "run", "b", "--", exe, "run", "a", "--", "true")

		assert.Equal(t, 64, got.code)
		assert.Regexp(t, `^fairlock: deadlock: "a" is already held by parent pid \d+, which waits for us\n`, got.stderr)
		assert.Equal(t, 0, execute(t, url, "run", "a", "--", exe, "run", "b", "--", "true").code)
	})
}

func TestASignalWhileWaitingLeavesTheQueue(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		holdOf(t, s, "busy")
		for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131} {
			r := begin(t, url, "run", "busy", "--", "echo", "ran")
			hasEntries(t, s, "busy", 2)
			r.err.WaitFor(t, `busy: waiting, 2nd of 2, held by \S+ pid \d+(, which asked \S+ ago| for \S+), token \d+\n`)

			require.NoError(t, r.Process.Signal(sig))

			assert.Equal(t, want, r.code(t))
			assert.Empty(t, r.out.String(), "the command was started")
			assert.Contains(t, r.err.String(), "busy: interrupted: left the queue")
			hasEntries(t, s, "busy", 1)
		}
	})
}

func TestFiftyAtOnceTakeTurns(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		file := filepath.Join(t.TempDir(), "turns")
		all := make([]*running, 50)
		for i := range all {
			all[i] = begin(t, url, "run", "-q", "turns", "--", "sh", "-c", fmt.Sprintf("echo in >>%s; sleep 0.01; echo out >>%s", file, file))
		}
		for _, r := range all {
			require.Equal(t, 0, r.code(t), r.err.String())
		}

		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, strings.Repeat("in\nout\n", len(all)), string(text))
	})
}

func TestOnceRunsTheCommandOncePerKey(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		run := func(script string) result {
			return execute(t, url, "run", "--once", "2026-11-20 17:34/x", "cron/é", "--", "sh", "-c", script)
		}

		assert.Equal(t, 3, run("exit 3").code)
		assert.Equal(t, result{stdout: "ran\n"}, run("echo ran"), "a command that failed runs again")
		got := run("echo again")

		assert.Equal(t, 0, got.code)
		assert.Empty(t, got.stdout)
		assert.Regexp(t, `^fairlock: cron/é: skipped: already ran \(token \d+, \S+ pid \d+, \S+ ago\)\n$`, got.stderr)
		assert.Equal(t, "other\n", execute(t, url, "run", "--once", "other", "cron/é", "--", "echo", "other").stdout)

		r := begin(t, url, "run", "--once", "stopped", "cron/é", "--", "sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done")
		r.out.WaitFor(t, "ready")
		require.NoError(t, r.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 0, r.code(t))
		got = execute(t, url, "run", "--once", "stopped", "cron/é", "--", "echo", "to the end")
		assert.Equal(t, result{stdout: "to the end\n"}, got, "a command that a signal has stopped runs again")
		assert.Empty(t, execute(t, url, "ls").stdout, "the record of a key is no lock")
	})
}

func TestHoldHoldsUntilStdinEndsOrASignalComes(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		r := prepared(t, url, "hold", "h")
		stdin, err := r.StdinPipe()
		require.NoError(t, err)
		r.start(t)
		r.out.WaitFor(t, "\n")
		var g schema.Grant
		require.NoError(t, json.Unmarshal([]byte(r.out.String()), &g))
		entries, err := s.Queue(t.Context(), "h")
		require.NoError(t, err)
		require.Len(t, entries, 1)
		assert.EqualValues(t, entries[0].Token, g.Token)
		assert.Equal(t, []string{"h", "mutex"}, []string{g.Name, g.Kind})

		require.NoError(t, stdin.Close())
		assert.Equal(t, 0, r.code(t))
		hasEntries(t, s, "h", 0)

		r = prepared(t, url, "hold", "-s", "h")
		_, err = r.StdinPipe()
		require.NoError(t, err)
		r.start(t)
		r.out.WaitFor(t, `"kind":"read"`)
		require.NoError(t, r.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 0, r.code(t))
		hasEntries(t, s, "h", 0)
	})
}

func TestElectCampaignsAgain(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		seen := begin(t, url, "elect", "--observe", "post")
		seen.out.WaitFor(t, "^-\n")
		observed := filepath.Join(t.TempDir(), "seen") // a short leadership may not be observed
		r := begin(t, url, "elect", "--value", "one", "post", "--", "sh", "-c",
			fmt.Sprintf("echo led; until [ -e %s ]; do sleep 0.02; done; exit 4", observed))
		seen.out.WaitFor(t, `(?m)^\d+ one\n`)
		require.NoError(t, os.WriteFile(observed, nil, 0o600))
		r.out.WaitFor(t, "(led\n){3}")
		r.err.WaitFor(t, `post: leads, with token \d+\n.*post: the command has ended, with code 4; campaigns again\n`)
		require.NoError(t, r.Process.Signal(syscall.SIGTERM))
		assert.Contains(t, []int{143, 4}, r.code(t))
		seen.out.WaitFor(t, `(?m)^\d+ one\n(.*\n)*-\n`)
		hasEntries(t, s, "post", 0)

		r = begin(t, url, "elect", "post", "--", "sleep", "1000")
		hasEntries(t, s, "post", 1)
		next := begin(t, url, "elect", "post", "--", "sh", "-c", "echo mine; sleep 1000")
		hasEntries(t, s, "post", 2)
		entries, err := s.Queue(t.Context(), "post")
		require.NoError(t, err)
		require.NoError(t, s.Evict(t.Context(), entries[0])) // the first is notified, and joins again at the end
		next.out.WaitFor(t, "mine")
		r.err.WaitFor(t, "post: lost the leadership, and the command is dead; campaigns again")
		hasEntries(t, s, "post", 2)
		for _, x := range []*running{next, r} {
			require.NoError(t, x.Process.Signal(syscall.SIGTERM))
			assert.Equal(t, 143, x.code(t))
		}
		require.NoError(t, seen.Process.Signal(syscall.SIGINT))
		assert.Equal(t, 130, seen.code(t))
	})
}

func TestElectObserveWritesTheLeaderAsJSON(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		seen := begin(t, url, "elect", "--observe", "-o", "jsonl", "post")
		seen.out.WaitFor(t, `"leader"[^\n]*\n`)
		r := begin(t, url, "elect", "--value", "10.0.0.7:80", "post", "--", "sleep", "1000")
		seen.out.WaitFor(t, `"token"[^\n]*\n`)
		require.NoError(t, r.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 143, r.code(t))
		seen.out.WaitFor(t, `(?s)"token".*\n[^\n]*\n`)
		require.NoError(t, seen.Process.Signal(syscall.SIGINT))
		assert.Equal(t, 130, seen.code(t))

		var led []bool
		for _, row := range rows(seen.out.String()) {
			var l schema.Leader
			require.NoError(t, json.Unmarshal([]byte(row), &l), row)
			assert.Equal(t, []string{"leader", "post"}, []string{l.Type, l.Name})
			led = append(led, l.Entry != nil)
			if l.Entry != nil {
				assert.Equal(t, []any{"10.0.0.7:80", "election", r.Process.Pid}, []any{l.Entry.Value, l.Entry.Kind, l.Entry.PID})
				assert.Positive(t, l.Entry.Token)
			}
		}
		assert.Equal(t, []bool{false, true, false}, led)
		got := execute(t, url, "elect", "-o", "jsonl", "post", "--", "true")
		assert.Equal(t, 64, got.code)
		assert.Contains(t, got.stderr, "-o is for --observe")
	})
}

func TestMinHoldKeepsTheLockWhenTheCommandHasEnded(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		start := time.Now()
		r := begin(t, url, "run", "--min-hold", "2", "m", "--", "sh", "-c", "echo ran; exit 6")
		r.out.WaitFor(t, "ran")

		holdOf(t, s, "m")

		assert.GreaterOrEqual(t, time.Since(start), 2*time.Second)
		assert.Equal(t, 6, r.code(t))
	})
}

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/testnet"
)

// through puts a proxy before the service of a URL.
func through(t *testing.T, url string) (*testnet.Proxy, string) {
	t.Helper()
	scheme, rest, _ := strings.Cut(url, "://")
	host, root, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(host, "@") + 1 // behind a login
	p, err := testnet.New(host[at:], nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p, scheme + "://" + host[:at] + p.Addr() + "/" + root
}

// stamps returns a command that writes the time to a file again and again. So does its child
// process. Both ignore SIGTERM.
func stamps(file string) []string {
	loop := `while :; do date +%s%N >>` + file + `; sleep 0.005; done`
	return []string{"sh", "-c", `trap '' TERM INT HUP; echo $$; (` + loop + `) & echo $!; ` + loop}
}

// stamped returns the first and the last of the times in a file.
func stamped(t *testing.T, file string) (first, last int64) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for f := range strings.FieldsSeq(string(text)) {
		at, err := strconv.ParseInt(f, 10, 64)
		if err != nil || len(f) != 19 {
			continue // the process was killed during the write, or two wrote at once
		}
		if first == 0 {
			first = at
		}
		last = max(last, at)
	}
	require.NotZero(t, first)
	return first, last
}

// deadBefore runs a command under a lock, injects a fault into its supervisor, and checks
// that the command is dead when the next one starts. It returns for how long it was dead.
func deadBefore(t *testing.T, url, through string, inject func(r *running)) (*running, time.Duration) {
	t.Helper()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	args := append([]string{"run", "--ttl", "10s", "--grace", "2s", "x/y", "--"}, stamps(one)...) // a busy machine may stand still for seconds
	r := begin(t, through, args...)
	r.out.WaitFor(t, `\d+\n\d+\n`)
	s := openSession(t, url, "")
	next := begin(t, url, "run", "x/y", "--", "sh", "-c", "date +%s%N >>"+two+"; exit 8")
	hasEntries(t, s, "x/y", 2)
	hang.Until(t, func() bool {
		written, err := os.Stat(one)
		return err == nil && written.Size() > 100
	}, "the command runs")

	inject(r)
	require.Equal(t, 8, next.code(t), next.err.String())

	_, last := stamped(t, one)
	first, _ := stamped(t, two)
	assert.Less(t, last, first, "the command ran at the same time as the next one")
	for _, pid := range strings.Fields(r.out.String())[:2] {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", pid))
		if err == nil { // a stopped supervisor has not reaped it
			assert.Contains(t, string(text), ") Z ")
		}
	}
	return r, time.Duration(first - last)
}

func TestACommandThatIsCutOffIsDeadBeforeTheNextStarts(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		p, cut := through(t, url)

		r, gap := deadBefore(t, url, cut, func(*running) { p.Hold(fault.Both) })

		assert.Equal(t, 79, r.code(t))
		for _, text := range []string{
			"no renewal is acknowledged, the lock is good for another", "the command is asked to stop", "lost the lock, and the command is dead",
		} {
			assert.Contains(t, r.err.String(), "fairlock: x/y: "+text)
		}
		t.Logf("dead for %s", gap)
	})
}

func TestACommandWhoseSupervisorIsKilledIsDeadAtOnce(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		_, gap := deadBefore(t, url, url, func(r *running) { assert.NoError(t, r.Process.Kill()) })

		assert.Greater(t, gap, time.Second, "long before the session expired")
	})
}

func TestACommandWhoseSupervisorIsStoppedIsDeadBeforeTheNextStarts(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		r, gap := deadBefore(t, url, url, func(r *running) { assert.NoError(t, r.Process.Signal(syscall.SIGSTOP)) })

		require.NoError(t, r.Process.Signal(syscall.SIGCONT))
		assert.Equal(t, 79, r.code(t))
		t.Logf("dead for %s", gap)
	})
}

func TestACommandWhoseEntryIsEvictedIsStopped(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		stopped := false
		for i := 0; i < 10 && !stopped; i++ { // on a machine that stands still, the command may not get its second
			r := begin(t, url, "run", "x", "--", "sh", "-c", `trap 'echo got TERM; exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
			r.out.WaitFor(t, "ready")
			entries, err := s.Queue(t.Context(), "x")
			require.NoError(t, err)

			require.NoError(t, s.Evict(t.Context(), entries[0]))

			assert.Equal(t, 79, r.code(t))
			assert.Contains(t, r.err.String(), "x: the lock is lost: ")
			stopped = r.out.String() == "ready\ngot TERM\n"
		}
		assert.True(t, stopped, "the command was killed each time")
	})
}

func TestACommandGoesOnWithOnLostWarn(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		file := filepath.Join(t.TempDir(), "go")
		r := begin(t, url, "run", "--on-lost", "warn", "x", "--", "sh", "-c", `echo ready; while ! test -e `+file+`; do sleep 0.02; done; exit 5`)
		r.out.WaitFor(t, "ready")
		entries, err := s.Queue(t.Context(), "x")
		require.NoError(t, err)

		require.NoError(t, s.Evict(t.Context(), entries[0]))
		r.err.WaitFor(t, "x: the lock is lost: ")
		require.NoError(t, os.WriteFile(file, nil, 0o600))

		assert.Equal(t, 5, r.code(t))
	})
}

func TestOnLostExecRunsWhenTheLockIsLost(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		program := filepath.Join(t.TempDir(), "report")
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"lost: $FAIRLOCK_NAME $FAIRLOCK_TOKEN: $FAIRLOCK_LOST\"\nexit 7\n"), 0o700))
		evicted := func(args ...string) (*running, int64) {
			r := begin(t, url, append([]string{"run", "--on-lost-exec", program}, args...)...)
			r.out.WaitFor(t, "ready")
			entries, err := s.Queue(t.Context(), "x")
			require.NoError(t, err)
			require.NoError(t, s.Evict(t.Context(), entries[0]))
			return r, int64(entries[0].Token)
		}
		once := func(r *running, token int64) {
			text := fmt.Sprintf("lost: x %d: ", token)
			assert.Equal(t, 1, strings.Count(r.err.String(), text), r.err.String())
			assert.NotContains(t, r.err.String(), text+"\n", "the reason follows")
			assert.NotContains(t, r.out.String(), "lost: x", "stdout is the command's")
			assert.Contains(t, r.err.String(), "--on-lost-exec "+program+": exit status 7\n")
		}

		r, token := evicted("x", "--", "sh", "-c", "echo ready; exec sleep 1000")
		assert.Equal(t, 79, r.code(t))
		once(r, token)

		file := filepath.Join(t.TempDir(), "go")
		r, token = evicted("--on-lost", "warn", "x", "--", "sh", "-c", "echo ready; until test -e "+file+"; do sleep 0.02; done; exit 5")
		r.err.WaitFor(t, "lost: x") // while the command runs
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		assert.Equal(t, 5, r.code(t))
		once(r, token)

		p, cut := through(t, url)
		r = begin(t, cut, "run", "--ttl", "10s", "--on-lost-exec", program, "x", "--", "sh", "-c", "echo ready; exec sleep 1000")
		r.out.WaitFor(t, "ready")
		entries, err := s.Queue(t.Context(), "x")
		require.NoError(t, err)
		require.Len(t, entries, 1)
		p.Hold(fault.Both) // the command ends at SIGTERM, before the deadline
		assert.Equal(t, 79, r.code(t))
		once(r, int64(entries[0].Token))

		got := execute(t, url, "run", "--on-lost-exec", program, "x", "--", "true")
		if strings.HasPrefix(url, "postgres") || strings.HasPrefix(url, "redis") { // the session that was cut off ends a TTL after another client began to watch it
			got.stderr = regexp.MustCompile(`^fairlock: x: waiting, 2nd of 2, [^\n]*\n$`).ReplaceAllString(got.stderr, "")
		}
		assert.Equal(t, result{}, got, "nothing was lost")
		assert.Equal(t, 127, execute(t, url, "run", "--on-lost-exec", "no-such-program", "x", "--", "true").code)
		hasEntries(t, s, "x", 0)
	})
}

package command

import (
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
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/itest/both"
)

// The claims of docs/comparison.md about other programs: flock as installed here, and
// etcdctl from its Go module.

// peer starts another program.
func peer(t *testing.T, name string, args ...string) *running {
	t.Helper()
	r := peerPrepared(t, name, args...)
	r.start(t)
	return r
}

func peerPrepared(t *testing.T, name string, args ...string) *running {
	t.Helper()
	r := &running{Cmd: exec.CommandContext(t.Context(), name, args...), done: make(chan struct{})}
	r.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	r.Stdout, r.Stderr = &r.out, &r.err
	r.WaitDelay = 5 * time.Second
	return r
}

// processOf waits until the command has written its pid, and returns it. The test kills the
// command at its end.
func processOf(t *testing.T, r *running) int {
	t.Helper()
	r.out.WaitFor(t, `^\d+\n`)
	word, _, _ := strings.Cut(r.out.String(), "\n")
	pid, err := strconv.Atoi(word)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // no other code kills it
	return pid
}

func TestFlockDoesWhatTheTableClaims(t *testing.T) {
	tier.Seldom(t)
	t.Parallel()
	flock, err := exec.LookPath("flock")
	require.NoError(t, err, "util-linux")
	file := func(t *testing.T) string { return filepath.Join(t.TempDir(), "lock") }

	t.Run("exit codes", func(t *testing.T) {
		t.Parallel()
		f := file(t)
		assert.Equal(t, 3, peer(t, flock, f, "sh", "-c", "exit 3").code(t))
		assert.Equal(t, 143, peer(t, flock, f, "sh", "-c", "kill $$").code(t))
		held := peer(t, flock, f, "sh", "-c", "echo $$; exec sleep 1000")
		processOf(t, held)
		assert.Equal(t, 1, peer(t, flock, "-n", f, "true").code(t))
		assert.Equal(t, 9, peer(t, flock, "-n", "-E", "9", f, "true").code(t))
	})
	t.Run("it reads stdin, and knows readers", func(t *testing.T) {
		t.Parallel()
		f := file(t)
		r := peerPrepared(t, flock, "-s", f, "sh", "-c", "read line; echo $line; read line")
		stdin, err := r.StdinPipe()
		require.NoError(t, err)
		r.start(t)
		_, err = stdin.Write([]byte("hello\n"))
		require.NoError(t, err)
		r.out.WaitFor(t, "hello\n")
		assert.Equal(t, 0, peer(t, flock, "-n", "-s", f, "true").code(t))
		assert.Equal(t, 1, peer(t, flock, "-n", "-x", f, "true").code(t))
		assert.NotContains(t, strings.Join(r.Env, " "), "LOCK", "the command gets no variables")
	})
	t.Run("a signal reaches flock alone", func(t *testing.T) {
		t.Parallel()
		f := file(t)
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			held := peer(t, flock, f, "sh", "-c", "echo $$; exec sleep 1000")
			pid := processOf(t, held)
			require.NoError(t, held.Process.Signal(sig))
			assert.Equal(t, 128+int(sig), held.code(t), "the signal kills flock")
			assert.NoError(t, syscall.Kill(pid, 0), "the command goes on")
			assert.Equal(t, 1, peer(t, flock, "-n", f, "true").code(t), "and has the lock, with the file")
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			require.Equal(t, 0, peer(t, flock, "-w", "20", f, "true").code(t))
		}
	})
	t.Run("a worker that the command leaves keeps the lock, without -o", func(t *testing.T) {
		t.Parallel()
		for want, option := range map[int]string{1: "-x", 0: "-o"} {
			f := file(t)
			left := peer(t, flock, option, f, "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!; exit 3")
			processOf(t, left)
			assert.Equal(t, 3, left.code(t), "it does not wait for the worker")
			assert.Equal(t, want, peer(t, flock, "-n", f, "true").code(t), option)
		}
	})
	t.Run("a waiter dies of a signal without a message", func(t *testing.T) {
		t.Parallel()
		f := file(t)
		processOf(t, peer(t, flock, f, "sh", "-c", "echo $$; exec sleep 1000"))
		waits := peer(t, flock, "--verbose", f, "true")
		hang.Until(t, func() bool { return blocked(waits.Process.Pid) }, "it does not wait")
		require.NoError(t, waits.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 143, waits.code(t))
		assert.Empty(t, waits.out.String()+waits.err.String())
	})
}

// blocked reports whether a process waits for a lock on a file.
func blocked(pid int) bool {
	text, err := os.ReadFile("/proc/locks")
	return err == nil && strings.Contains(string(text), fmt.Sprintf("-> FLOCK  ADVISORY  WRITE %d ", pid))
}

func TestEtcdctlDoesWhatTheTableClaims(t *testing.T) {
	tier.Seldom(t)
	t.Parallel()
	binary := both.Etcdctl(t)
	cluster := etcdtest.New(t, nil)
	client := cluster.Client(t)
	lock := func(name string, command ...string) []string {
		return append([]string{"--endpoints", cluster.Endpoints()[0], "lock", "--ttl", "5", name, "--"}, command...)
	}
	entries := func(t *testing.T, name string, n int) []int64 {
		t.Helper()
		var leases []int64
		hang.Until(t, func() bool {
			resp, err := client.Get(t.Context(), name+"/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
			if err != nil || len(resp.Kvs) != n {
				return false
			}
			leases = nil
			for _, kv := range resp.Kvs {
				leases = append(leases, kv.Lease)
			}
			return true
		}, "%d entries of %q", n, name)
		return leases
	}

	t.Run("in order", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "turns")
		processOf(t, peer(t, binary, lock("order", "sh", "-c", "echo $$; exec sleep 1000")...))
		first := entries(t, "order", 1)
		var all []*running
		for i := range 3 {
			all = append(all, peer(t, binary, lock("order", "sh", "-c", fmt.Sprintf("echo %d >>%s", i, file))...))
			entries(t, "order", i+2)
		}
		_, err := client.Revoke(hang.Context(t), clientv3.LeaseID(first[0]))
		require.NoError(t, err)
		for _, r := range all {
			require.Equal(t, 0, r.code(t), r.err.String())
		}
		turns, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, "0\n1\n2\n", string(turns))
	})
	t.Run("exit codes and stdin", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, 3, peer(t, binary, lock("codes", "sh", "-c", "exit 3")...).code(t))
		assert.Equal(t, 255, peer(t, binary, lock("codes", "sh", "-c", "kill $$")...).code(t))
		r := peerPrepared(t, binary, lock("codes", "cat")...)
		r.Stdin = strings.NewReader("hello\n")
		r.start(t)
		assert.Equal(t, 0, r.code(t))
		assert.Empty(t, r.out.String(), "stdin does not reach the command")
	})
	t.Run("the command is not notified of a loss", func(t *testing.T) {
		t.Parallel()
		stop := filepath.Join(t.TempDir(), "stop")
		held := peer(t, binary, lock("lost", "sh", "-c", "echo $$; while ! test -e "+stop+"; do sleep 0.02; done")...)
		pid := processOf(t, held)
		_, err := client.Revoke(hang.Context(t), clientv3.LeaseID(entries(t, "lost", 1)[0]))
		require.NoError(t, err)
		next := peer(t, binary, lock("lost", "sh", "-c", "echo mine")...)
		require.Equal(t, 0, next.code(t))
		require.NoError(t, syscall.Kill(pid, 0), "it ran at the same time as the next one")
		require.NoError(t, os.WriteFile(stop, nil, 0o600))
		assert.Equal(t, 0, held.code(t), "and ends as if nothing had happened")
	})
	t.Run("a signal reaches etcdctl alone", func(t *testing.T) {
		t.Parallel()
		held := peer(t, binary, lock("signal", "sh", "-c", "echo $$; exec sleep 1000")...)
		pid := processOf(t, held)
		waits := peer(t, binary, lock("signal", "echo", "ran")...)
		entries(t, "signal", 2)
		require.NoError(t, waits.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 1, waits.code(t), "it leaves the queue")
		entries(t, "signal", 1)
		assert.NotContains(t, waits.out.String()+waits.err.String(), "signal/", "it shows neither place nor holder")
		require.NoError(t, held.Process.Signal(syscall.SIGTERM))
		require.NoError(t, held.Process.Kill())
		<-held.done
		assert.NoError(t, syscall.Kill(pid, 0), "the command is notified of neither")
	})
	t.Run("a worker that the command leaves does not keep the lock", func(t *testing.T) {
		t.Parallel()
		left := peer(t, binary, lock("left", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")...)
		worker := processOf(t, left)
		assert.Equal(t, 0, left.code(t))
		entries(t, "left", 0)
		assert.NoError(t, syscall.Kill(worker, 0))
	})
	t.Run("its revision is not the key's", func(t *testing.T) {
		t.Parallel()
		held := peer(t, binary, lock("rev", "sh", "-c", "echo $$; exec sleep 1000")...)
		processOf(t, held)
		r := peer(t, binary, lock("rev", "sh", "-c", "echo $$; echo $ETCD_LOCK_KEY $ETCD_LOCK_REV; exec sleep 1000")...)
		first := entries(t, "rev", 2)[0]
		_, err := client.Put(hang.Context(t), "elsewhere", "x")
		require.NoError(t, err)
		_, err = client.Revoke(hang.Context(t), clientv3.LeaseID(first))
		require.NoError(t, err)
		processOf(t, r)
		r.out.WaitFor(t, `\S+ \d+\n`)
		printed := strings.Fields(r.out.String())
		key, rev := printed[1], printed[2]
		resp, err := client.Get(hang.Context(t), key)
		require.NoError(t, err)
		require.Len(t, resp.Kvs, 1)
		assert.NotEqual(t, strconv.FormatInt(resp.Kvs[0].CreateRevision, 10), rev)
	})
}

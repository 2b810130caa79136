package etcdtest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
)

func TestKilledLeaderIsReplacedAndComesBack(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{Members: 3, Processes: true})
	works(t, c.Client(t))
	old := leader(t, c)
	pid := c.Member(old).Pid()

	require.NoError(t, c.Member(old).Kill())
	require.NoError(t, c.Member(old).Kill(), "dead is dead")

	require.NotEqual(t, old, leader(t, c))
	recovers(t, only(t, c, leader(t, c)))
	require.Error(t, c.Member(old).Pause(), "nobody there to pause")

	require.NoError(t, c.Member(old).Restart(within(t, soon)))
	assert.NotEqual(t, pid, c.Member(old).Pid())
	recovers(t, only(t, c, old))
}

func TestRestartKeepsTheData(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{Processes: true})
	_, err := only(t, c, 0).Put(within(t, soon), "key", "kept")
	require.NoError(t, err)
	require.NoError(t, c.Member(0).Restart(within(t, soon)))

	got, err := only(t, c, 0).Get(within(t, soon), "key")
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1)
	assert.Equal(t, "kept", string(got.Kvs[0].Value))
}

func TestPausedLeaderIsReplacedAndFollows(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{Members: 3, Processes: true})
	old := leader(t, c)

	require.NoError(t, c.Member(old).Pause())
	require.NotEqual(t, old, leader(t, c))
	recovers(t, only(t, c, leader(t, c)))

	require.NoError(t, c.Member(old).Resume())
	recovers(t, only(t, c, old))
}

// orphan is what a parent that is about to be killed tells of its children.
type orphan struct {
	Pid      int
	Endpoint string
}

// orphanParent starts a cluster, says what it started, and waits to be killed.
// One member is paused, so that only the kernel can end it.
func orphanParent() {
	c, err := etcdtest.Start(context.Background(), &etcdtest.Options{Members: 3, Processes: true, Fsync: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var orphans []orphan
	for i := range c.Len() {
		orphans = append(orphans, orphan{c.Member(i).Pid(), c.Member(i).Direct()})
	}
	if runtime.GOOS == "linux" {
		if err := c.Member(0).Pause(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(orphans)
	_, _ = io.Copy(io.Discard, os.Stdin) // and leave when our own parent does
	os.Exit(1)
}

func TestProcessesDieWithTheirParent(t *testing.T) {
	parent := exec.CommandContext(t.Context(), os.Args[0])
	// With Fsync its data goes to the directory for temporary files, which is ours
	// to remove.
	parent.Env = append(os.Environ(), orphanEnv+"=1", "TMPDIR="+t.TempDir())
	parent.Stderr = os.Stderr
	stdin, err := parent.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	var orphans []orphan
	err = json.NewDecoder(bufio.NewReader(stdout)).Decode(&orphans)

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // it says "killed"

	require.NoError(t, err)
	require.Len(t, orphans, 3)
	for _, o := range orphans {
		u, err := url.Parse(o.Endpoint)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return refused(u.Host) }, soon, 10*time.Millisecond,
			"process %d still has its port", o.Pid)
	}
}

func refused(addr string) bool {
	nc, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		_ = nc.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Package orphans is for tests of packages that start servers: those have to die
// with the process that has started them, however it ends.
package orphans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Server is one that was started.
type Server struct {
	Pid  int
	Addr string // host and port, where it listens itself
}

// env makes the test binary a parent that is to be killed.
const env = "FAIRLOCK_TEST_ORPHANS"

// Parent is called first in TestMain. In a process that [DieWithParent] has started
// it starts the servers, tells of them, and waits to be killed.
func Parent(start func() ([]Server, error)) {
	if os.Getenv(env) == "" {
		return
	}
	servers, err := start()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(servers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		_, _ = io.Copy(io.Discard, os.Stdin) // and leave when our own parent does
	}
	os.Exit(1)
}

// DieWithParent kills a parent of n servers, and checks that they give up their
// ports within a time.
func DieWithParent(t *testing.T, n int, within time.Duration) {
	t.Helper()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	// Whatever data it leaves is in a directory that is ours to remove.
	parent.Env = append(os.Environ(), env+"=1", "TMPDIR="+t.TempDir())
	parent.Stderr = os.Stderr
	stdin, err := parent.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = stdin.Close() }()
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	var servers []Server
	err = json.NewDecoder(stdout).Decode(&servers)

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // it says "killed"

	require.NoError(t, err)
	require.Len(t, servers, n)
	for _, s := range servers {
		require.Eventually(t, func() bool { return Refused(s.Addr) }, within, 10*time.Millisecond,
			"process %d still has its port", s.Pid)
	}
}

// Refused says that nobody listens at an address.
func Refused(addr string) bool {
	dialer := net.Dialer{Timeout: time.Second}
	nc, err := dialer.DialContext(context.Background(), "tcp", addr)
	if err == nil {
		_ = nc.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

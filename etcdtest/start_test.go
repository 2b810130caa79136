package etcdtest

import (
	"bufio"
	"encoding/json"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/testserver"
)

// laidOut returns a cluster that is ready to be started, and closes it after the
// test.
func laidOut(t *testing.T, opts Options) *Cluster {
	t.Helper()
	opts, err := opts.complete()
	require.NoError(t, err)
	c := newCluster(opts)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.prepare(t.Context()))
	return c
}

// Start tries again when another process took a port after it was found free.
// This test checks that Start recognizes that error.
func TestTakenPortIsRecognized(t *testing.T) {
	for name, processes := range map[string]bool{"embedded": false, "process": true} {
		t.Run(name, func(t *testing.T) {
			c := laidOut(t, Options{Processes: processes})
			l, err := net.Listen("tcp", strings.TrimPrefix(c.Member(0).Direct(), "http://"))
			require.NoError(t, err)
			defer l.Close()

			err = c.launch(t.Context())
			require.Error(t, err)
			require.True(t, testserver.PortTaken(err), "%v", err)
		})
	}
}

// On Linux the kernel kills the process with its parent anyway; elsewhere only
// this ends it.
func TestServerExitsWhenItsInputEnds(t *testing.T) {
	c := laidOut(t, Options{Processes: true})
	cmd := exec.CommandContext(t.Context(), c.binary)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, json.NewEncoder(stdin).Encode(c.Member(0).spec))
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "serving\n", line)

	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
}

func TestPanicOfEtcdIsAnError(t *testing.T) {
	_, err := startEtcd(nil) // etcd reads the configuration first

	require.ErrorContains(t, err, "etcd panicked: ")
}

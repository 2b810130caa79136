package zktest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever is called back without a proxy in between cannot be cut off, and that
// depends on who was faster.
func TestMembersTalkOnlyThroughTheirProxies(t *testing.T) {
	e := New(t, &Options{Members: 3, Proxied: true})
	onlyOurs(t, e)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	for _, m := range e.members { // the lowest is always called back
		require.NoError(t, m.Restart(ctx))
		onlyOurs(t, e)
	}
}

// onlyOurs checks that every connection to a port for members is ours.
func onlyOurs(t *testing.T, e *Ensemble) {
	t.Helper()
	target := map[string]bool{}
	for _, m := range e.members {
		for _, addr := range []string{m.addrs.quorum, m.addrs.election} {
			_, port, err := net.SplitHostPort(addr)
			require.NoError(t, err)
			n, err := strconv.Atoi(port)
			require.NoError(t, err)
			target[fmt.Sprintf("%04X", n)] = true
		}
	}
	mine := map[string]bool{} // the proxies come and go meanwhile: before and after
	files(t, mine)
	var lines []string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		require.NoError(t, err)
		lines = append(lines, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	}
	files(t, mine)
	found := 0
	for _, line := range lines {
		const remote, state, inode = 2, 3, 9
		f := strings.Fields(line)
		if _, port, _ := strings.Cut(f[remote], ":"); f[state] != "01" || !target[port] {
			continue
		}
		found++
		require.True(t, mine["socket:["+f[inode]+"]"], "a member is connected without a proxy: %s", line)
	}
	require.NotZero(t, found)
}

// files adds what this process has open.
func files(t *testing.T, mine map[string]bool) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, fd := range fds {
		to, _ := os.Readlink(fd) // some are closed again
		mine[to] = true
	}
}

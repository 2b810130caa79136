package zktest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
)

// A connection that bypasses the proxies cannot be cut. Without the rewrite in
// callBack, some would bypass them, depending on which member connected first.
func TestMembersTalkOnlyThroughTheirProxies(t *testing.T) {
	e := New(t, &Options{Members: 3, Proxied: true})
	onlyOurs(t, e)
	ctx := hang.Context(t)

	for _, m := range e.members { // a higher member always connects back to the lowest
		require.NoError(t, m.Restart(ctx))
		onlyOurs(t, e)
	}
}

// onlyOurs checks that every connection to a port for members comes from a
// proxy, so from this process.
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
	mine := files(t, os.Getpid()) // proxy connections open and close meanwhile, so read them before and after
	all := sockets(t)
	again := files(t, os.Getpid())
	found := 0
	for _, s := range all {
		if s.state == "01" && target[s.remotePort] { // 01 is established
			found++
			require.True(t, mine[s.file] || again[s.file], "a member is connected without a proxy: %+v", s)
		}
	}
	require.NotZero(t, found)
}

func TestServersListenOnLoopbackOnly(t *testing.T) {
	for name, opts := range map[string]*Options{"three": {Members: 3}, "TLS": {TLS: true}} {
		t.Run(name, func(t *testing.T) {
			e := New(t, opts)
			listening := 0
			for _, m := range e.members {
				of := files(t, m.Pid())
				for _, s := range sockets(t) {
					if s.state == "0A" && of[s.file] { // 0A is listening
						listening++
						require.Contains(t, []string{"0100007F", "0000000000000000FFFF00000100007F"}, s.localHost)
					}
				}
			}
			require.GreaterOrEqual(t, listening, e.Len())
		})
	}
}

// socket is one entry of /proc/net/tcp.
type socket struct{ localHost, remotePort, state, file string }

func sockets(t *testing.T) []socket {
	t.Helper()
	var all []socket
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			const local, remote, state, inode = 1, 2, 3, 9
			f := strings.Fields(line)
			host, _, _ := strings.Cut(f[local], ":")
			_, port, _ := strings.Cut(f[remote], ":")
			all = append(all, socket{host, port, f[state], "socket:[" + f[inode] + "]"})
		}
	}
	return all
}

// files returns the files that a process has open.
func files(t *testing.T, pid int) map[string]bool {
	t.Helper()
	open := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	for _, fd := range fds {
		to, _ := os.Readlink(fd) // some are closed by now
		open[to] = true
	}
	return open
}

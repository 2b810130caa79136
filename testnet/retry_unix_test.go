//go:build unix

package testnet_test

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/testnet"
)

// reserve binds a port without listening, and returns a function that listens.
// A port that was only freed could be taken by another process, even by the
// source of one of the proxy's own attempts to connect to it.
func reserve(t *testing.T) (addr string, listen func() net.Listener) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "reserved")
	t.Cleanup(func() { f.Close() })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	port := name.(*unix.SockaddrInet4).Port //nolint:forcetypeassert // it is what was bound
	tcp := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	return tcp.String(), func() net.Listener {
		require.NoError(t, unix.Listen(fd, 1))
		l, err := net.FileListener(f)
		require.NoError(t, err)
		return l
	}
}

func TestDialRetryWaitsForTheServer(t *testing.T) {
	target, listen := reserve(t)
	proxy := start(t, target, &testnet.Options{DialRetry: true})
	client := dial(t, proxy)
	send(t, client, "patience")
	hang.Until(t, func() bool { return proxy.Stats().Requests.Waiting == 8 }, "the proxy keeps what was sent")

	l := listen()
	defer l.Close()
	server, err := l.Accept()
	require.NoError(t, err)
	defer server.Close()

	expect(t, server, "patience")
}

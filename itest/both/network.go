package both

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// ClosedAddr returns an address at which no server listens.
func ClosedAddr(t testing.TB) (addr string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

package zktest_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/zktest"
)

// soon bounds what should happen at once on an idle machine.
const soon = 20 * time.Second

func TestMain(m *testing.M) {
	testserver.Parent(orphanParent)
	goleak.VerifyTestMain(m)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// only returns a client of one member, past its proxy.
func only(t *testing.T, e *zktest.Ensemble, i int) *zk.Conn {
	t.Helper()
	conn, err := e.NewClient(&zktest.ClientOptions{Endpoints: []string{e.Member(i).Direct()}})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// dialer dials with TLS if there is a config.
func dialer(config *tls.Config) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		if config == nil {
			return net.DialTimeout(network, address, timeout)
		}
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, config)
	}
}

func leader(t *testing.T, e *zktest.Ensemble) int {
	t.Helper()
	i, err := e.Leader(within(t, soon))
	require.NoError(t, err)
	return i
}

func create(t *testing.T, conn *zk.Conn, path string) {
	t.Helper()
	_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func exists(t *testing.T, conn *zk.Conn, path string) bool {
	t.Helper()
	found, _, err := conn.Exists(path)
	require.NoError(t, err)
	return found
}

// works checks that the ensemble accepts a write and that a read returns it.
func works(t *testing.T, conn *zk.Conn) {
	t.Helper()
	path, err := conn.Create("/works", []byte("value"), zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	got, _, err := conn.Get(path)
	require.NoError(t, err)
	require.Equal(t, "value", string(got))
}

// recovers waits until a member works through a client after a fault: a member
// may serve no client until it has found the others again.
func recovers(t *testing.T, conn *zk.Conn) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := conn.Create("/recovers", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		return err == nil
	}, soon, 10*time.Millisecond)
	works(t, conn)
}

package zktest_test

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/zktest"
)

func TestMain(m *testing.M) {
	testserver.Parent(orphanParent)
	goleak.VerifyTestMain(m)
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
	i, err := e.Leader(hang.Context(t))
	require.NoError(t, err)
	return i
}

func create(t *testing.T, conn *zk.Conn, path string) {
	t.Helper()
	reached(t, func() error {
		_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		return err
	})
}

// reached calls f until a member has accepted its client: on a busy machine, the library
// gives a request up before that.
func reached(t *testing.T, f func() error) {
	t.Helper()
	var err error
	hang.Until(t, func() bool {
		err = f()
		return !errors.Is(err, zk.ErrNoServer)
	}, "no member accepts the client")
	require.NoError(t, err)
}

func exists(t *testing.T, conn *zk.Conn, path string) bool {
	t.Helper()
	var found bool
	reached(t, func() (err error) {
		found, _, err = conn.Exists(path)
		return err
	})
	return found
}

// works checks that the ensemble accepts a write and that a read returns it.
func works(t *testing.T, conn *zk.Conn) {
	t.Helper()
	var path string
	reached(t, func() (err error) {
		path, err = conn.Create("/works", []byte("value"), zk.FlagSequence, zk.WorldACL(zk.PermAll))
		return err
	})
	got, _, err := conn.Get(path)
	require.NoError(t, err)
	require.Equal(t, "value", string(got))
}

// recovers waits until a member works through a client after a fault: a member
// may serve no client until it has found the others again.
func recovers(t *testing.T, conn *zk.Conn) {
	t.Helper()
	hang.Until(t, func() bool {
		_, err := conn.Create("/recovers", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		return err == nil
	}, "the member accepts no write")
	works(t, conn)
}

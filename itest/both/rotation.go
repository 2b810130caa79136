package both

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/testnet"
)

// Files are the files that a client is given for TLS.
type Files struct{ CA, Cert, Key string }

// ReplacedCertificates has a client hold a lock with a certificate that ends soon. The files are
// replaced while the old ones are good, and the connections are reset when the servers refuse the
// old ones. The hold lives on, and the client locks on. Before that the files are in ruins for a
// moment, as they are while a rotation copies them. proxy leads to a server with certificates of ca,
// which speaks TLS from the beginning, or after hello, if that is not nil. open opens the client with
// these files.
func ReplacedCertificates(t *testing.T, ca *testnet.CA, proxy *testnet.Proxy, hello func(net.Conn) error, open func(Files) (*recipetest.Client, error)) {
	t.Helper()
	dir := t.TempDir()
	now := Files{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	put := func(issuer *testnet.CA) {
		cert, key, err := issuer.Issue("worker")
		require.NoError(t, err)
		for to, from := range map[string]string{now.CA: ca.File(), now.Cert: cert, now.Key: key} {
			b, err := os.ReadFile(from)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(to, b, 0o600))
		}
	}
	var p *recipetest.Client
	var old tls.Certificate
	for life := 10 * time.Second; ; life *= 2 { // a busy machine may need longer to open a session
		put(ca.Until(time.Now().Add(life)))
		var err error
		old, err = tls.LoadX509KeyPair(now.Cert, now.Key)
		require.NoError(t, err)
		p, err = open(now)
		if err == nil {
			break
		}
		require.True(t, expired(t, proxy.Target(), hello, old), "%v", err)
	}
	h := p.Lock(t, "x")

	require.NoError(t, os.WriteFile(now.Cert, nil, 0o600))
	require.NoError(t, os.Remove(now.Key))
	proxy.Reset()
	recipetest.Unlock(t, p.Lock(t, "with the last good files"))
	put(ca)
	recipetest.Until(t, "the server refuses the old certificate", func() bool { return expired(t, proxy.Target(), hello, old) })
	proxy.Reset()

	recipetest.Unlock(t, p.Lock(t, "with the new files"))
	require.NoError(t, h.Context().Err())
	recipetest.Unlock(t, h)
	p.Kept(t)
	assert.True(t, expired(t, proxy.Target(), hello, old))
}

// expired reports whether a server refuses a certificate because it has ended. The server's refusal
// comes after the client's part of the handshake.
func expired(t *testing.T, server string, hello func(net.Conn) error, cert tls.Certificate) bool {
	t.Helper()
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true} //nolint:gosec // it is about the server's check
	plain, err := (&net.Dialer{}).DialContext(recipetest.Bounded(t), "tcp", server)
	if err != nil {
		return false
	}
	defer func() { _ = plain.Close() }()
	if hello == nil {
		cfg.NextProtos = []string{"h2"}
	} else if err := hello(plain); err != nil {
		return false
	}
	c := tls.Client(plain, cfg)
	err = c.HandshakeContext(recipetest.Bounded(t))
	if err == nil {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		_, err = c.Read(make([]byte, 1))
	}
	return err != nil && strings.Contains(err.Error(), "certificate")
}

package testserver

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCertificatesAreWhatTheySay has each kind shown by a server and by a client,
// to the checks of crypto/tls.
func TestCertificatesAreWhatTheySay(t *testing.T) {
	t.Parallel()
	ca, err := NewCA(t.TempDir())
	require.NoError(t, err)
	other, err := NewCA(t.TempDir())
	require.NoError(t, err)
	good, err := ca.Client("good")
	require.NoError(t, err)
	for _, c := range []struct {
		name           string
		ca             *CA
		server, client string // what is said of it there; "" if it is good
	}{
		{"good", ca, "", ""},
		{"expired", ca.Expired(), "certificate has expired", "certificate has expired"},
		{"elsewhere", ca.Elsewhere("db.example.org"), "it doesn't contain any IP SANs", ""},
		{"unknown", other, "certificate signed by unknown authority", "certificate signed by unknown authority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			odd, err := c.ca.Client("odd-" + c.name) // of a name of its own: files are overwritten
			require.NoError(t, err)
			odd.RootCAs = good.RootCAs
			said, _ := handshake(t, odd, good)
			told(t, c.server, said)
			_, said = handshake(t, good, odd)
			told(t, c.client, said)
		})
	}
}

// handshake has a server and a client show what they have, and returns what the
// server's certificate was found to be by the client, and the client's by the
// server.
func handshake(t *testing.T, server, client *tls.Config) (ofServer, ofClient error) {
	t.Helper()
	server, client = server.Clone(), client.Clone()
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, server.RootCAs
	client.ServerName = "127.0.0.1"
	a, b := net.Pipe()
	defer a.Close()
	answer := make(chan error, 1)
	go func() { // ends with the pipe at the latest
		defer b.Close()
		conn := tls.Server(b, server)
		err := conn.HandshakeContext(t.Context())
		if err == nil {
			_, err = conn.Write([]byte{1})
		}
		answer <- err
	}()
	conn := tls.Client(a, client)
	ofServer = conn.HandshakeContext(t.Context())
	if ofServer == nil {
		_, _ = conn.Read(make([]byte, 1)) // or what the server thinks of the client's
	}
	_ = a.Close()
	return ofServer, <-answer
}

// told checks an error that is to say something, or not to be.
func told(t *testing.T, says string, err error) {
	t.Helper()
	if says == "" {
		assert.NoError(t, err)
		return
	}
	assert.ErrorContains(t, err, says)
}

// TestWhatHasExpiredWasGoodBefore shows that expired certificates are refused for
// nothing else.
func TestWhatHasExpiredWasGoodBefore(t *testing.T) {
	t.Parallel()
	ca, err := NewCA(t.TempDir())
	require.NoError(t, err)
	pair, err := ca.Expired().Client("old")
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(pair.Certificates[0].Certificate[0])
	require.NoError(t, err)
	_, err = cert.Verify(x509.VerifyOptions{Roots: pair.RootCAs, DNSName: "localhost"})
	require.ErrorContains(t, err, "expired")
	_, err = cert.Verify(x509.VerifyOptions{Roots: pair.RootCAs, DNSName: "localhost", CurrentTime: cert.NotAfter})
	require.NoError(t, err)
}

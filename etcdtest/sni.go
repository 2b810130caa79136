package etcdtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// serverName is a Label for TLS connections. It returns the server name that
// the client sends in the clear. So a client that sends a name of its own can
// be recognized on every connection that it makes. The label of bytes that are
// not TLS is "".
func serverName(head []byte) (label string, ok bool) {
	seen := errors.New("seen")
	server := tls.Server(clientHello{bytes.NewReader(head)}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			label = hello.ServerName
			return nil, seen
		},
	})
	// The handshake cannot succeed: it ends at seen, at bytes that are not TLS,
	// or where more bytes are needed.
	err := server.HandshakeContext(context.Background())
	return label, !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

// clientHello is a connection on which only the first bytes of a client have
// arrived.
type clientHello struct{ io.Reader }

func (clientHello) Write(b []byte) (int, error)      { return len(b), nil }
func (clientHello) Close() error                     { return nil }
func (clientHello) LocalAddr() net.Addr              { return nil }
func (clientHello) RemoteAddr() net.Addr             { return nil }
func (clientHello) SetDeadline(time.Time) error      { return nil }
func (clientHello) SetReadDeadline(time.Time) error  { return nil }
func (clientHello) SetWriteDeadline(time.Time) error { return nil }

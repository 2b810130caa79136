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

// serverName is a Label for TLS connections: the server name that the client
// asks for, which it sends in the clear. A client that gives a name of its own
// there is told apart from all others on every connection that it makes,
// whatever is said inside. Bytes that are not TLS have the label "".
func serverName(head []byte) (label string, ok bool) {
	seen := errors.New("seen")
	server := tls.Server(greeting{bytes.NewReader(head)}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			label = hello.ServerName
			return nil, seen
		},
	})
	// The handshake cannot succeed: it ends at seen, at bytes that are no TLS,
	// or where more bytes are needed.
	err := server.HandshakeContext(context.Background())
	return label, !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

// greeting is a connection on which only some bytes have come.
type greeting struct{ io.Reader }

func (greeting) Write(b []byte) (int, error)      { return len(b), nil }
func (greeting) Close() error                     { return nil }
func (greeting) LocalAddr() net.Addr              { return nil }
func (greeting) RemoteAddr() net.Addr             { return nil }
func (greeting) SetDeadline(time.Time) error      { return nil }
func (greeting) SetReadDeadline(time.Time) error  { return nil }
func (greeting) SetWriteDeadline(time.Time) error { return nil }

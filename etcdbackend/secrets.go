package etcdbackend

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/credentials"

	"github.com/fairlock/fairlock/internal/credential"
	"github.com/fairlock/fairlock/session"
)

// secrets are what a DialConfig names in files. Each is nil if it names none. etcd's client
// takes certificates and a password once, for its whole life. But a session lives for months,
// and its files are replaced meanwhile. So the files take the place of what the client has of
// its own: handshakes that of its credentials, and logins that of its part that logs in.
type secrets struct {
	tls      *credential.TLS
	password *credential.Password
}

// secrets reads the files.
func (c DialConfig) secrets() (s secrets, err error) {
	if c.TLS == nil && c.files().Any() {
		s.tls, err = c.files().Open()
	}
	if err == nil && c.PasswordFile != "" {
		s.password, err = credential.OpenPassword(c.PasswordFile)
	}
	if err != nil {
		return s, fmt.Errorf("%w: %w", session.ErrInvalidOptions, err)
	}
	return s, nil
}

// log names the logger for files that cannot be read any more. Before there is a Session there is no
// logger: an error of Dial names the file instead.
func (s secrets) log(log *slog.Logger) {
	if s.tls != nil {
		s.tls.Log(log)
	}
	if s.password != nil {
		s.password.Log(log)
	}
}

// handshakes are gRPC's credentials for connections. Each handshake uses the files as they are
// then, so new files count from the next connection on. Those that are open stay as they are.
type handshakes struct{ files *credential.TLS }

// ClientHandshake implements credentials.TransportCredentials.
func (h handshakes) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	cfg := h.files.Config()
	return credentials.NewTLS(cfg).ClientHandshake(ctx, cmp.Or(cfg.ServerName, authority), conn)
}

// ServerHandshake implements credentials.TransportCredentials. A client never calls it.
func (handshakes) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.ErrUnsupported
}

// Info implements credentials.TransportCredentials.
func (handshakes) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}).Info()
}

// Clone implements credentials.TransportCredentials. Nothing in it changes.
func (h handshakes) Clone() credentials.TransportCredentials { return h }

// OverrideServerName implements credentials.TransportCredentials. gRPC has deprecated it.
func (handshakes) OverrideServerName(string) error { return errors.ErrUnsupported }

// logins is the part of a client that logs in: at the start, for each stream, and when a token is
// refused, as all are when the password changes. Each time it reads the password from its file.
type logins struct {
	clientv3.Auth
	password *credential.Password
}

// Authenticate logs in with the password that is in the file now.
func (l logins) Authenticate(ctx context.Context, name, _ string) (*clientv3.AuthenticateResponse, error) {
	return l.Auth.Authenticate(ctx, name, l.password.Read()) //nolint:wrapcheck // it is the client's own
}

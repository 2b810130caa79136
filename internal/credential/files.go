package credential

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// Files are what a TLS configuration is made of. The zero value trusts the system's authorities and
// shows no certificate.
type Files struct {
	CA, Cert, Key string // PEM files
	ServerName    string // the name in the servers' certificates, "" for the host that was dialled
}

// Any reports whether any field is set.
func (f Files) Any() bool { return f != Files{} }

// TLS is a TLS configuration that follows its files.
type TLS struct {
	roots *latest[*x509.CertPool]
	pair  *latest[tls.Certificate]
	name  string
}

// Open reads the files. It returns an error if one cannot be used.
func (f Files) Open() (*TLS, error) {
	t := &TLS{name: f.ServerName}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("a certificate and its key go together")
	}
	var err error
	if f.CA != "" {
		path := absolute(f.CA)
		t.roots, err = open(func() (*x509.CertPool, error) { return readCA(path) })
		if err != nil {
			return nil, err
		}
	}
	if f.Cert != "" {
		cert, key := absolute(f.Cert), absolute(f.Key)
		t.pair, err = open(func() (tls.Certificate, error) { return readPair(cert, key) })
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Log has it logged when a file cannot be read any more. Before the first call nothing is logged.
func (t *TLS) Log(log *slog.Logger) {
	t.roots.logTo(log)
	t.pair.logTo(log)
}

// Config reads the files again, and returns a configuration for one connection.
func (t *TLS) Config() *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.name}
	if t.roots != nil {
		cfg.RootCAs = t.roots.get()
	}
	if t.pair != nil {
		cfg.Certificates = []tls.Certificate{t.pair.get()}
	}
	return cfg
}

func readCA(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the CA: no certificate in %q", path)
	}
	return pool, nil
}

func readPair(cert, key string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("read the certificate: %w", err)
	}
	return pair, nil
}

// Password is a password that follows its file.
type Password struct{ text *latest[string] }

// OpenPassword reads the file. It returns an error if there is no password in it.
func OpenPassword(path string) (*Password, error) {
	path = absolute(path)
	text, err := open(func() (string, error) { return ReadPassword(path) })
	if err != nil {
		return nil, err
	}
	return &Password{text}, nil
}

// Log has it logged when the file cannot be read any more. Before the first call nothing is logged.
func (p *Password) Log(log *slog.Logger) { p.text.logTo(log) }

// Read reads the file again and returns the password.
func (p *Password) Read() string { return p.text.get() }

// ReadPassword reads a password from a file, without the newline that editors
// add at its end. Its errors quote nothing of the file's content.
func ReadPassword(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	switch {
	case len(b) == 0:
		return "", fmt.Errorf("read the password: %q is empty", path)
	case bytes.ContainsAny(b, "\n\x00"):
		return "", fmt.Errorf("read the password: %q has more than one line", path)
	}
	return string(b), nil
}

// absolute keeps a path right when the program changes its directory.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

package address

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Secret returns the password. It reads the file if the password is in one.
func (a *Address) Secret() (string, error) {
	if a.Password != "" || a.PasswordFile == "" {
		return a.Password, nil
	}
	return ReadPassword(a.PasswordFile)
}

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

// TLSConfig returns the TLS configuration, or nil without TLS. It reads the
// files now.
func (a *Address) TLSConfig() (*tls.Config, error) {
	if !a.TLS() {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.ServerName}
	if a.CAFile != "" {
		pem, err := os.ReadFile(a.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the CA: no certificate in %q", a.CAFile)
		}
	}
	switch {
	case (a.CertFile == "") != (a.KeyFile == ""):
		return nil, errors.New("a certificate and its key go together")
	case a.CertFile != "":
		cert, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

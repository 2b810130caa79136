package zktest

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/fairlock/fairlock/internal/testserver"
)

// CA is a temporary certificate authority. Its certificates are valid for a day and for
// the loopback addresses, and its key never leaves the memory. File is the authority's
// own certificate, for others to trust; Issue writes a certificate and its key, good
// for a server and for a client; Client returns what a client needs to be a user and to
// trust the servers. To ZooKeeper a client with the name "web" is the user "CN=web" of
// the scheme "x509".
type CA = testserver.CA

// secure makes what servers and our own clients need for TLS.
func (e *Ensemble) secure() (err error) {
	if e.ca, err = testserver.NewCA(e.dir.Path()); err != nil {
		return err
	}
	ca := e.ca
	if e.opts.ServerCA != nil {
		ca = e.opts.ServerCA(ca)
	}
	if e.keyStore, err = keyStore(ca); err != nil {
		return err
	}
	if e.tls, err = e.ca.Client("client"); err != nil {
		return err
	}
	e.tls.InsecureSkipVerify = e.opts.ServerCA != nil
	return nil
}

// keyStore writes what the servers show clients, in the one file that ZooKeeper
// wants.
func keyStore(ca *CA) (file string, err error) {
	cert, key, err := ca.Issue("server")
	if err != nil {
		return "", err
	}
	var both []byte
	for _, part := range []string{key, cert} {
		text, err := os.ReadFile(part)
		if err != nil {
			return "", fmt.Errorf("zktest: key store: %w", err)
		}
		both = append(both, text...)
	}
	file = filepath.Join(filepath.Dir(cert), "server-store.pem")
	if err := os.WriteFile(file, both, 0o600); err != nil {
		return "", fmt.Errorf("zktest: key store: %w", err)
	}
	return file, nil
}

package zktest

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/fairlock/fairlock/testnet"
)

// secure makes the certificates and the configurations that servers and our own
// clients need for TLS.
func (e *Ensemble) secure() (err error) {
	e.ca, err = testnet.NewCA(e.dir.Path())
	if err != nil {
		return err
	}
	ca := e.ca
	if e.opts.ServerCA != nil {
		ca = e.opts.ServerCA(ca)
	}
	e.keyStore, err = keyStore(ca)
	if err != nil {
		return err
	}
	e.tls, err = e.ca.Client("client")
	if err != nil {
		return err
	}
	e.tls.InsecureSkipVerify = e.opts.ServerCA != nil
	return nil
}

// keyStore writes the servers' certificate and key into one file, as ZooKeeper
// requires.
func keyStore(ca *testnet.CA) (file string, err error) {
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

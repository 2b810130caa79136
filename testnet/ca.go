package testnet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// CA is a throw-away certificate authority. Its certificates are valid for a day
// and for the loopback addresses; its key never leaves the memory. Expired and
// Elsewhere are for tests of what must be refused. To etcd, a client with the name
// "web" is the user "web"; to ZooKeeper, it is the user "CN=web" of the scheme "x509".
type CA struct {
	dir   string
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	until time.Time // the end of the certificates; zero means a day from now
	hosts []string  // instead of the loopback addresses
}

// lifetime is how long certificates are valid.
const lifetime = 24 * time.Hour

// NewCA makes an authority that writes its files into dir, which must exist.
func NewCA(dir string) (*CA, error) {
	ca := &CA{dir: dir}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "testnet"},
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	// The certificate signs itself: the template is its own parent. It begins before
	// all certificates that it signs, also before the expired ones.
	der, key, err := sign(template, template, nil, time.Now().Add(-2*lifetime), time.Now().Add(lifetime))
	if err != nil {
		return nil, err
	}
	ca.cert, err = x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("testnet: certificate authority: %w", err)
	}
	ca.key = key
	if err := write(ca.File(), encode("CERTIFICATE", der)); err != nil {
		return nil, err
	}
	return ca, nil
}

// File is the authority's own certificate, for others to trust.
func (ca *CA) File() string { return filepath.Join(ca.dir, "ca.pem") }

// Expired is the same authority, whose certificates ended an hour ago.
func (ca *CA) Expired() *CA { return ca.Until(time.Now().Add(-time.Hour)) }

// Until is the same authority, whose certificates end at that time.
func (ca *CA) Until(end time.Time) *CA {
	other := *ca
	other.until = end
	return &other
}

// Elsewhere is the same authority, whose certificates are good for these hosts
// and not for the loopback addresses.
func (ca *CA) Elsewhere(hosts ...string) *CA {
	other := *ca
	other.hosts = hosts
	return &other
}

// Issue writes a certificate and its key, good for a server and for a client. A
// server is trusted as 127.0.0.1, ::1, localhost and the further hosts given. The
// key is PKCS #8, both are PEM. Issuing for the same name again overwrites the
// files.
func (ca *CA) Issue(name string, hosts ...string) (certFile, keyFile string, err error) {
	cert, key, err := ca.issue(name, hosts)
	if err != nil {
		return "", "", err
	}
	certFile, keyFile = filepath.Join(ca.dir, name+".pem"), filepath.Join(ca.dir, name+"-key.pem")
	if err := write(certFile, cert); err != nil {
		return "", "", err
	}
	return certFile, keyFile, write(keyFile, key)
}

// issue returns what Issue writes.
func (ca *CA) issue(name string, hosts []string) (cert, key []byte, err error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    append(slices.Clone(ca.hosts), hosts...),
	}
	if ca.hosts == nil {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
		template.DNSNames = append(template.DNSNames, "localhost")
	}
	until := ca.until
	if until.IsZero() {
		until = time.Now().Add(lifetime)
	}
	// The certificate began at least an hour ago, because clocks of containers differ.
	der, secret, err := sign(template, ca.cert, ca.key, until.Add(-lifetime-time.Hour), until)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return nil, nil, fmt.Errorf("testnet: key of %q: %w", name, err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8), nil
}

// Client returns what a client needs to be this user and to trust the servers. It
// writes no files, so it may be called at any time by any goroutine.
func (ca *CA) Client(user string) (*tls.Config, error) {
	cert, key, err := ca.issue(user, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("testnet: certificate of %q: %w", user, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		RootCAs:      roots,
	}, nil
}

// sign completes the template with a new key and signs it. Without a parent's key it
// signs with the new key.
func sign(
	template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, from, until time.Time,
) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("testnet: generate key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return nil, nil, fmt.Errorf("testnet: serial number: %w", err)
	}
	if parentKey == nil {
		parentKey = key
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = from, until
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, fmt.Errorf("testnet: sign certificate: %w", err)
	}
	return der, key, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func write(file string, data []byte) error {
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("testnet: write certificate: %w", err)
	}
	return nil
}

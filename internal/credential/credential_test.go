package credential

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPasswordFileHasOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	for text, want := range map[string]string{"s e\n": "s e", "s": "s", "s\r\n": "s", "s \n": "s "} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

		got, err := ReadPassword(path)

		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for text, want := range map[string]string{"": " is empty", "\n": " is empty", "hunter2\nx": " has more than one line"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

		_, err := ReadPassword(path)

		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestAPasswordFollowsItsFileAndKeepsTheLastGoodOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write("one\n")
	p, err := OpenPassword(path)
	require.NoError(t, err)
	var log bytes.Buffer
	p.Log(slog.New(slog.NewTextHandler(&log, nil)))

	assert.Equal(t, "one", p.Read())
	write("two")
	assert.Equal(t, "two", p.Read())
	require.NoError(t, os.Remove(path))
	assert.Equal(t, "two", p.Read())
	assert.Equal(t, "two", p.Read())
	write("")
	assert.Equal(t, "two", p.Read())
	write("three")
	assert.Equal(t, "three", p.Read())

	assert.Equal(t, 2, strings.Count(log.String(), "level=WARN"), "each reason once: %s", &log)
	assert.NotContains(t, log.String(), "two")
}

// subject returns the name in the certificate that a configuration shows.
func subject(t *testing.T, c *TLS) string {
	t.Helper()
	certs := c.Config().Certificates
	require.Len(t, certs, 1)
	cert, err := x509.ParseCertificate(certs[0].Certificate[0])
	require.NoError(t, err)
	return cert.Subject.CommonName
}

// issue writes a certificate that signs itself, and its key.
func issue(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return certFile, keyFile
}

func TestCertificatesFollowTheirFilesAndKeepTheLastGoodOnes(t *testing.T) {
	dir := t.TempDir()
	cert, key := issue(t, dir, "one")
	other, otherKey := issue(t, dir, "two")
	ca, _ := issue(t, dir, "ca")
	move := func(from, to string) {
		b, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, b, 0o600))
	}
	c, err := Files{CA: ca, Cert: cert, Key: key, ServerName: "db"}.Open()
	require.NoError(t, err)
	assert.Equal(t, "db", c.Config().ServerName)
	assert.Equal(t, "one", subject(t, c))
	roots := c.Config().RootCAs

	move(other, cert) // and the key comes later
	assert.Equal(t, "one", subject(t, c), "the certificate without its key")
	move(otherKey, key)
	assert.Equal(t, "two", subject(t, c))
	require.NoError(t, os.WriteFile(ca, []byte("-----BEGIN"), 0o600))
	assert.True(t, roots.Equal(c.Config().RootCAs), "half an authority")
	move(other, ca)
	assert.False(t, roots.Equal(c.Config().RootCAs))
	require.NoError(t, os.Remove(cert))
	assert.Equal(t, "two", subject(t, c))
}

func TestFilesAreFoundAfterTheProgramHasChangedItsDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("password", []byte("one"), 0o600))
	p, err := OpenPassword("password")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte("two"), 0o600))

	assert.Equal(t, "two", p.Read())
}

func TestWhatCannotBeUsedAtTheStartIsAnError(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for want, f := range map[string]Files{
		"read the CA: no certificate in":          {CA: empty},
		"read the CA: open /absent":               {CA: "/absent"},
		"read the certificate:":                   {Cert: empty, Key: empty},
		"a certificate and its key go together":   {Cert: empty},
		"read the certificate: open /absent/cert": {Cert: "/absent/cert", Key: empty},
	} {
		_, err := f.Open()
		assert.ErrorContains(t, err, want)
	}
	_, err := OpenPassword(empty)
	assert.ErrorContains(t, err, "is empty")
}

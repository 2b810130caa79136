package faircertmagic_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	faircertmagic "github.com/fairlock/fairlock/adapters/certmagic"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	domain = "example.com"
	queue  = "certs/issue_cert_" + domain
)

var errUnavailable = errors.New("the authority is unavailable")

// authority signs certificates, and counts them.
type authority struct {
	key    *ecdsa.PrivateKey
	issued atomic.Int64
}

func newAuthority() *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return &authority{key: key}
}

func (a *authority) sign(csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(a.issued.Add(1)), DNSNames: csr.DNSNames,
		NotBefore: time.Now(), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, csr.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// issuer is the certmagic.Issuer of one process. Before the authority signs, work is called.
type issuer struct {
	*authority
	work func(ctx context.Context) error
}

func (issuer) IssuerKey() string { return "test" }

func (i issuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if err := i.work(ctx); err != nil {
		return nil, err
	}
	return i.sign(csr)
}

// replica is a process with certmagic.
type replica struct {
	*certmagic.Config
	session *session.Session
	storage *faircertmagic.Storage
	log     *observer.ObservedLogs
}

// newReplica starts a replica on a store of locks, with its assets in a storage.
func newReplica(t *testing.T, st *membackend.Store, assets certmagic.Storage, a *authority, work func(context.Context) error) *replica {
	t.Helper()
	core, log := observer.New(zap.InfoLevel)
	r := &replica{session: memtest.OpenLogged(t, st, nil), log: log}
	r.storage = faircertmagic.NewStorage(assets, func(name string) *mutex.Mutex { return mutex.New(r.session, "certs/"+name) })
	logger := zap.New(core)
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return r.Config, nil }, Logger: logger,
	})
	t.Cleanup(cache.Stop)
	r.Config = certmagic.New(cache, certmagic.Config{
		Storage: r.storage, Issuers: []certmagic.Issuer{issuer{a, work}}, Logger: logger, OCSP: certmagic.OCSPConfig{DisableStapling: true},
	})
	return r
}

// logged returns how often a message was logged.
func (r *replica) logged(message string) int { return r.log.FilterMessage(message).Len() }

// lose ends the present hold of the lock of the domain, as an operator may.
func lose(t *testing.T, st *membackend.Store) {
	t.Helper()
	require.True(t, st.Delete(queue, memtest.Entries(st, queue)[0].Key))
	time.Sleep(time.Second) // for the event of that
}

// stored returns the serial number of the certificate in a storage, whose key must fit.
func stored(t *testing.T, assets certmagic.Storage) int64 {
	t.Helper()
	keys := certmagic.StorageKeys
	cert, err := assets.Load(t.Context(), keys.SiteCert("test", domain))
	require.NoError(t, err)
	key, err := assets.Load(t.Context(), keys.SitePrivateKey("test", domain))
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	return leaf.SerialNumber.Int64()
}

func nothing(context.Context) error { return nil }

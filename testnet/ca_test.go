package testnet

import (
	"crypto/x509"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatHasExpiredWasGoodBefore shows that expired certificates are refused
// only because they have expired.
func TestWhatHasExpiredWasGoodBefore(t *testing.T) {
	t.Parallel()
	ca, err := NewCA(t.TempDir())
	require.NoError(t, err)
	pair, err := ca.Expired().Client("old")
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(pair.Certificates[0].Certificate[0])
	require.NoError(t, err)
	_, err = cert.Verify(x509.VerifyOptions{Roots: pair.RootCAs, DNSName: "localhost"})
	require.ErrorContains(t, err, "expired")
	_, err = cert.Verify(x509.VerifyOptions{Roots: pair.RootCAs, DNSName: "localhost", CurrentTime: cert.NotAfter})
	require.NoError(t, err)
}

func TestClientsOfOneNameCanBeMadeAtTheSameTime(t *testing.T) {
	t.Parallel()
	ca, err := NewCA(t.TempDir())
	require.NoError(t, err)
	errs := make([]error, 100)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = ca.Client("web") })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
}

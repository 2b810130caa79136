package certmagic

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/certmagic"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// authority is an ACME server, with what answers its challenges.
type authority struct {
	job // what its clients need; without URL and TTL

	stop chan func() // has what the next order calls before its certificate is issued

	mu       sync.Mutex
	accounts int // how many it has made
	issued   int // how many certificates it has issued
}

// newAuthority starts Pebble, and a server that answers challenges from the assets, as each
// replica behind a load balancer does.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	challenges, err := new(net.ListenConfig).Listen(t.Context(), "tcp", subject+":0")
	require.NoError(t, err)
	a := &authority{job: job{Assets: t.TempDir(), Port: challenges.Addr().(*net.TCPAddr).Port}, stop: make(chan func(), 1)}
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	signs := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {}})
	front := wfe.New(quiet, store, va.New(quiet, a.Port, 0, false, "", store), signs, []string{"pebble.letsencrypt.org"}, false, false, 1, 1)
	server := httptest.NewTLSServer(a.counted(front.Handler()))
	t.Cleanup(server.Close)
	a.Directory = server.URL + wfe.DirectoryPath
	a.Roots = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	cfg, stop, err := a.config(&certmagic.FileStorage{Path: a.Assets})
	require.NoError(t, err)
	t.Cleanup(stop)
	answers := &http.Server{Handler: cfg.Issuers[0].(*certmagic.ACMEIssuer).HTTPChallengeHandler(http.NotFoundHandler())}
	ended := make(chan error)
	go func() { ended <- answers.Serve(challenges) }()
	t.Cleanup(func() {
		assert.NoError(t, answers.Close())
		assert.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return a
}

// counted counts what a handler grants.
func (a *authority) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		issues := strings.HasPrefix(r.URL.Path, "/finalize-order/")
		if issues {
			select {
			case stop := <-a.stop:
				stop()
			default:
			}
		}
		status := &statusWriter{ResponseWriter: w}
		h.ServeHTTP(status, r)
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case issues && status.code == http.StatusOK:
			a.issued++
		case r.URL.Path == "/sign-me-up" && status.code == http.StatusCreated:
			a.accounts++
		}
	})
}

// stopFirst stops the next order before its certificate is issued. began has a value then, and
// goOn lets it go on. The test does that in the end.
func (a *authority) stopFirst(t *testing.T) (began <-chan struct{}, goOn func()) {
	t.Helper()
	stopped, goes := make(chan struct{}, 1), make(chan struct{})
	a.stop <- func() {
		stopped <- struct{}{}
		<-goes
	}
	goOn = sync.OnceFunc(func() { close(goes) })
	t.Cleanup(goOn)
	return stopped, goOn
}

// counts returns how many accounts and certificates there are.
func (a *authority) counts() (accounts, issued int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.accounts, a.issued
}

// stored returns the serial number of the certificate in the assets, whose key must fit.
func (a *authority) stored(t *testing.T) string {
	t.Helper()
	cfg, stop, err := a.config(&certmagic.FileStorage{Path: a.Assets})
	require.NoError(t, err)
	defer stop()
	serial, err := cached(t.Context(), cfg) // it fails if the key is that of another certificate
	require.NoError(t, err)
	return serial
}

// forget removes the certificate from the assets.
func (a *authority) forget(t *testing.T) {
	t.Helper()
	assets := &certmagic.FileStorage{Path: a.Assets}
	require.NoError(t, assets.Delete(t.Context(), "certificates"))
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	code int
}

func (s *statusWriter) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

func (s *statusWriter) Write(b []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

// certificate is a certificate that one side refuses.
type certificate struct {
	name, text string
	cluster    *etcdtest.Cluster
	edit       func(*etcdbackend.DialConfig)
	ours       bool // it is the server that refuses
}

// badCertificates is about certificates that must be refused, each on a real connection.
// Dial and Open return the reason when their time is up.
func badCertificates(t *testing.T) {
	good := etcdtest.New(t, &etcdtest.Options{TLS: true})
	expired := etcdtest.New(t, &etcdtest.Options{TLS: true, ServerCA: (*testnet.CA).Expired})
	elsewhere := etcdtest.New(t, &etcdtest.Options{
		TLS: true, ServerCA: func(ca *testnet.CA) *testnet.CA { return ca.Elsewhere("localhost") },
	})
	other, err := testnet.NewCA(t.TempDir())
	require.NoError(t, err)
	shows := func(ca *testnet.CA) func(*etcdbackend.DialConfig) {
		cert, key, err := ca.Issue("outsider")
		require.NoError(t, err)
		return func(c *etcdbackend.DialConfig) { c.CertFile, c.KeyFile = cert, key }
	}

	all := []certificate{
		{
			"servers of another authority", "certificate signed by unknown authority", good,
			func(c *etcdbackend.DialConfig) { c.CAFile = other.File() }, false,
		},
		{
			"the system's authorities", "certificate signed by unknown authority", good,
			func(c *etcdbackend.DialConfig) { c.CAFile = "" }, false,
		},
		{"servers that have expired", "certificate has expired", expired, func(*etcdbackend.DialConfig) {}, false},
		{"servers of another name", "cannot validate certificate for 127.0.0.1", elsewhere, func(*etcdbackend.DialConfig) {}, false},
		{
			"no certificate of one's own", "remote error: tls: certificate required", good,
			func(c *etcdbackend.DialConfig) { c.CertFile, c.KeyFile = "", "" }, true,
		},
		{"an own one of another authority", "remote error: tls: unknown certificate authority", good, shows(other), true},
		{"an own one that has expired", "remote error: tls: expired certificate", good, shows(good.CA().Expired()), true},
	}
	// The same clients are accepted with a right configuration, so nothing else is the
	// reason.
	require.NoError(t, newClient(t, "root", recipetest.CalmTTL).dial(t, configOf(t, good, "worker")))
	right := configOf(t, elsewhere, "worker")
	right.Endpoints = []string{strings.Replace(right.Endpoints[0], "127.0.0.1", "localhost", 1)}
	require.NoError(t, newClient(t, "root", recipetest.CalmTTL).dial(t, right))

	var checks sync.WaitGroup
	defer checks.Wait()
	for i, c := range all {
		cfg := configOf(t, c.cluster, fmt.Sprint("worker", i)) // each has files of its own
		c.edit(&cfg)
		checks.Go(func() { refusedInTime(t, c, cfg) })
	}
}

// configOf returns a configuration that a cluster accepts.
func configOf(t *testing.T, c *etcdtest.Cluster, user string) etcdbackend.DialConfig {
	t.Helper()
	cert, key, err := c.CA().Issue(user)
	require.NoError(t, err)
	return etcdbackend.DialConfig{Endpoints: c.Endpoints(), CAFile: c.CA().File(), CertFile: cert, KeyFile: key}
}

// refusedInTime dials, and opens a session on a client of the user.
func refusedInTime(t *testing.T, c certificate, cfg etcdbackend.DialConfig) {
	const timeout = 5 * time.Second
	cfg.Timeout = timeout
	check := func(how string, open func() error) {
		watch := metronome.Begin(t)
		err := open()
		took := watch.Passed()
		t.Logf("%s, %s: %s: %v", c.name, how, took.Round(time.Millisecond), err)
		assert.ErrorIs(t, err, session.ErrUnavailable, "%s, %s", c.name, how)
		assert.ErrorContains(t, err, c.text, "%s, %s", c.name, how)
		assert.ErrorContains(t, err, c.cluster.Endpoints()[0], "%s, %s", c.name, how)
		assert.NotContains(t, fmt.Sprint(err), goodPassword)
		assert.Less(t, took, 3*timeout, "%s, %s: not for ever", c.name, how)
	}
	check("dialled", func() error {
		return second(etcdbackend.Dial(t.Context(), cfg, nil))
	})
	check("dialled with a login", func() error {
		cfg := cfg
		cfg.Username, cfg.Password = "worker", goodPassword
		return second(etcdbackend.Dial(t.Context(), cfg, nil))
	})

	client, err := clientv3.New(clientv3.Config{Endpoints: cfg.Endpoints, TLS: tlsOf(t, cfg), Logger: zap.NewNop()})
	require.NoError(t, err)
	defer client.Close()
	if c.ours {
		// A user's client reports only what failed first on its connection, and that
		// may be its own write.
		c.text = ""
	}
	check("a user's client", func() error {
		return second(etcdbackend.Open(hang.Ending(t, timeout), client, nil))
	})
}

// tlsOf returns what Dial makes of the files, as a user would write it.
func tlsOf(t *testing.T, cfg etcdbackend.DialConfig) *tls.Config {
	t.Helper()
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		require.NoError(t, err)
		c.RootCAs = x509.NewCertPool()
		require.True(t, c.RootCAs.AppendCertsFromPEM(pem))
	}
	if cfg.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		require.NoError(t, err)
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

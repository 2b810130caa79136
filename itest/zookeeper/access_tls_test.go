package zookeeper

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

func TestTLSAndNoOtherAuthority(t *testing.T) {
	t.Parallel()
	e := zktest.New(t, &zktest.Options{TLS: true})
	worker, err := e.CA().Client("worker")
	require.NoError(t, err)
	_, port, _ := strings.Cut(e.Endpoints()[0], ":")
	// By name and by address: the client checks the certificate for each.
	for _, server := range []string{e.Endpoints()[0], "localhost:" + port} {
		p := newClient(t, "/locks", recipetest.CalmTTL)
		p.opts.TLS = worker
		p.opts.ACL = []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=worker"}}
		p.open(t, server)
		other := newClient(t, "/locks", recipetest.CalmTTL)
		other.opts.TLS, other.opts.ACL = p.opts.TLS, p.opts.ACL
		other.open(t, server)
		admin := e.Client(t)
		both.Use(t, &p.Client, &other.Client, "orders/")
		_, err := admin.Create("/locks/x", nil, 0, zk.WorldACL(zk.PermAll))
		require.ErrorIs(t, err, zk.ErrNoAuth, "only the owner of the certificate is that worker")
		assert.Empty(t, worker.ServerName, "the user's configuration is not changed")
		p.Kept(t)
	}

	other, err := testnet.NewCA(t.TempDir())
	require.NoError(t, err)
	unknown, err := other.Client("worker")
	require.NoError(t, err)
	old, err := e.CA().Expired().Client("worker")
	require.NoError(t, err)
	with := func(edit func(*tls.Config)) func(*zkbackend.Options) {
		return func(o *zkbackend.Options) {
			o.TLS = worker.Clone()
			edit(o.TLS)
		}
	}
	server := e.Endpoints()[0]
	all := []refusal{
		{
			name: "servers of another authority", text: []string{"TLS", "certificate signed by unknown authority"},
			edit: with(func(c *tls.Config) { c.RootCAs = unknown.RootCAs }),
		},
		{
			name: "the system's authorities", text: []string{"TLS", "certificate signed by unknown authority"},
			edit: with(func(c *tls.Config) { c.RootCAs = nil }),
		},
		{
			name: "a server that was asked for by another name", text: []string{"TLS", "certificate is valid for localhost, not zk.example.org"},
			edit: with(func(c *tls.Config) { c.ServerName = "zk.example.org" }),
		},
		{
			// How a server refuses a client comes after the client's own part of
			// the handshake.
			name: "no certificate of one's own", text: []string{"certificate"},
			edit: with(func(c *tls.Config) { c.Certificates = nil }),
		},
		{
			name: "a certificate of another authority", text: []string{"certificate"},
			edit: with(func(c *tls.Config) { c.Certificates = unknown.Certificates }),
		},
		{name: "in the clear", text: []string{"closed the connection", "wants TLS"}},
	}
	for i := range all {
		all[i].servers, all[i].is = []string{server}, session.ErrUnavailable
		all[i].text = append(all[i].text, server)
	}
	plain, _ := shared(t)
	all = append(all, refusal{
		name: "an own certificate that has expired", servers: []string{server}, is: session.ErrUnavailable,
		text: []string{"certificate", server}, edit: with(func(c *tls.Config) { c.Certificates = old.Certificates }),
	})
	all = append(all, refusal{
		name: "TLS to a server in the clear", servers: plain.Endpoints(), is: session.ErrUnavailable,
		text: []string{"TLS", plain.Endpoints()[0]}, edit: with(func(*tls.Config) {}),
	})
	checkRefusals(t, all)
}

// TestServersWhoseCertificateDoesNotServe has one server show an expired
// certificate, and another one a certificate for another name.
func TestServersWhoseCertificateDoesNotServe(t *testing.T) {
	t.Parallel()
	expired := zktest.New(t, &zktest.Options{TLS: true, ServerCA: (*testnet.CA).Expired})
	named := zktest.New(t, &zktest.Options{TLS: true, ServerCA: func(ca *testnet.CA) *testnet.CA { return ca.Elsewhere("localhost") }})
	trusting := func(e *zktest.Ensemble) func(*zkbackend.Options) {
		worker, err := e.CA().Client("worker")
		require.NoError(t, err)
		return func(o *zkbackend.Options) { o.TLS = worker }
	}
	right := newClient(t, "/locks", recipetest.CalmTTL)
	trusting(named)(&right.opts)
	right.open(t, strings.Replace(named.Endpoints()[0], "127.0.0.1", "localhost", 1))
	recipetest.Unlock(t, right.Lock(t, "x"))

	checkRefusals(t, []refusal{
		{
			name: "expired", servers: expired.Endpoints(), is: session.ErrUnavailable, edit: trusting(expired),
			text: []string{"TLS", "certificate has expired", expired.Endpoints()[0]},
		},
		{
			name: "another name", servers: named.Endpoints(), is: session.ErrUnavailable, edit: trusting(named),
			text: []string{"TLS", "cannot validate certificate for 127.0.0.1", named.Endpoints()[0]},
		},
	})
}

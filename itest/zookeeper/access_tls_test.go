package zookeeper

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

func TestTLSAndNoOtherAuthority(t *testing.T) {
	t.Parallel()
	e := zktest.New(t, &zktest.Options{TLS: true})
	worker, err := e.CA().Client("worker")
	require.NoError(t, err)
	_, port, _ := strings.Cut(e.Servers()[0], ":")
	// By name and by address: each is what the certificate is looked at for.
	for _, server := range []string{e.Servers()[0], "localhost:" + port} {
		p := newParty(t, "/locks", calmTTL)
		p.opts.TLS = worker
		p.opts.ACL = []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=worker"}}
		p.open(t, server)
		other := newParty(t, "/locks", calmTTL)
		other.opts = p.opts
		other.open(t, server)
		admin := e.Conn(t)
		everythingWorks(t, p, other, func(int) {})
		_, err := admin.Create("/locks/x", nil, 0, zk.WorldACL(zk.PermAll))
		require.ErrorIs(t, err, zk.ErrNoAuth, "its certificate is who the worker is, and nobody else is that")
		assert.Empty(t, worker.ServerName, "the user's configuration is not changed")
		p.kept(t)
	}

	other, err := testserver.NewCA(t.TempDir())
	require.NoError(t, err)
	stranger, err := other.Client("worker")
	require.NoError(t, err)
	with := func(edit func(*tls.Config)) func(*zkbackend.Options) {
		return func(o *zkbackend.Options) {
			o.TLS = worker.Clone()
			edit(o.TLS)
		}
	}
	server := e.Servers()[0]
	all := []refusal{
		{
			name: "servers of another authority", says: []string{"TLS", "certificate signed by unknown authority"},
			edit: with(func(c *tls.Config) { c.RootCAs = stranger.RootCAs }),
		},
		{
			name: "the system's authorities", says: []string{"TLS", "certificate signed by unknown authority"},
			edit: with(func(c *tls.Config) { c.RootCAs = nil }),
		},
		{
			name: "a server of another name", says: []string{"TLS", "certificate is valid for localhost, not zk.example.org"},
			edit: with(func(c *tls.Config) { c.ServerName = "zk.example.org" }),
		},
		{
			name: "a certificate that has expired", says: []string{"TLS", "expired"},
			edit: with(func(c *tls.Config) { c.Time = func() time.Time { return time.Now().Add(48 * time.Hour) } }),
		},
		{
			// How a server refuses a client comes after the client's own part of
			// the handshake.
			name: "no certificate of one's own", says: []string{"certificate"},
			edit: with(func(c *tls.Config) { c.Certificates = nil }),
		},
		{
			name: "a certificate of another authority", says: []string{"certificate"},
			edit: with(func(c *tls.Config) { c.Certificates = stranger.Certificates }),
		},
		{name: "in the clear", says: []string{"closed the connection", "wants TLS"}},
	}
	for i := range all {
		all[i].servers, all[i].is = []string{server}, session.ErrUnavailable
		all[i].says = append(all[i].says, server)
	}
	plain, _ := shared.use(t)
	all = append(all, refusal{
		name: "TLS to a server in the clear", servers: plain.Servers(), is: session.ErrUnavailable,
		says: []string{"TLS", plain.Servers()[0]}, edit: with(func(*tls.Config) {}),
	})
	tellRefusals(t, all)
}

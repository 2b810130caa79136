package zookeeper

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

func TestCertificatesAreReplacedUnderAHold(t *testing.T) {
	t.Parallel()
	e := zktest.New(t, &zktest.Options{TLS: true})
	proxy := proxyOf(t, e, 0)
	both.ReplacedCertificates(t, e.CA(), proxy, nil, func(f both.Files) (*recipetest.Client, error) {
		p := newClient(t, "/locks", recipetest.CalmTTL)
		p.opts.CAFile, p.opts.CertFile, p.opts.KeyFile = f.CA, f.Cert, f.Key
		s, err := zkbackend.Open(recipetest.Bounded(t), []string{proxy.Addr()}, &p.opts)
		return &p.Client, p.Opened(t, s, err)
	})
}

// To ZooKeeper another password is another identity. First only the old one may use the folders,
// and later only the new one.
func TestAPasswordFileIsReplacedUnderAHold(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) { require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o600)) }
	write("old")
	proxy := proxyOf(t, e, 0)
	p := newClient(t, root, recipetest.CalmTTL)
	p.opts.Auth, p.opts.ACL = []zkbackend.Auth{zkbackend.DigestFileAuth("worker", file)}, zk.AuthACL(zk.PermAll)
	p.open(t, proxy.Addr())
	h := p.Lock(t, "x")

	write("new")
	proxy.Reset()
	recipetest.Unlock(t, p.Lock(t, "y"))
	admin := e.Client(t)
	require.NoError(t, admin.AddAuth("digest", []byte("worker:old")))
	for _, path := range []string{root, root + "/x", root + "/y"} {
		_, err := admin.SetACL(path, zk.DigestACL(zk.PermAll, "worker", "new"), -1)
		require.NoError(t, err, path)
	}

	recipetest.Unlock(t, p.Lock(t, "y"))
	require.NoError(t, h.Context().Err())
	recipetest.Unlock(t, h)
	p.Kept(t)
}

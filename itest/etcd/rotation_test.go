package etcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

func replacedCertificates(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{TLS: true})
	proxy, err := testnet.New(strings.TrimPrefix(cluster.Endpoints()[0], "https://"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	both.ReplacedCertificates(t, cluster.CA(), proxy, nil, func(f both.Files) (*recipetest.Client, error) {
		p := newClient(t, "root", recipetest.CalmTTL)
		err := p.dial(t, etcdbackend.DialConfig{Endpoints: []string{proxy.Addr()}, CAFile: f.CA, CertFile: f.Cert, KeyFile: f.Key})
		return &p.Client, err
	})
}

// The user's password changes, and a moment later the file of it.
func replacedPassword(t *testing.T) {
	endpoint := etcdWithLogins(t, 300)
	withUsers(t, endpoint, "root/")
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) { require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o600)) }
	write(goodPassword)
	p := newClient(t, "root", recipetest.CalmTTL)
	require.NoError(t, p.dial(t, etcdbackend.DialConfig{Endpoints: []string{endpoint}, Username: "worker", PasswordFile: file}))
	h := p.Lock(t, "x")
	root := loggedIn(t, endpoint, "root", nil)

	_, err := root.UserChangePassword(recipetest.Bounded(t), "worker", "an0ther-horse")
	require.NoError(t, err)
	_, err = mutex.New(p.Session, "before the file").Lock(recipetest.Bounded(t))
	require.ErrorIs(t, err, session.ErrDenied)
	write("an0ther-horse")

	recipetest.Unlock(t, p.Lock(t, "after it"))
	require.NoError(t, h.Context().Err())
	recipetest.Unlock(t, h)
	p.Kept(t)
}

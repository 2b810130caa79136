package etcd

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// passwordsAreKept goes through all that a login meets, and then looks for the
// passwords in all that was said, printed and stored.
func passwordsAreKept(t *testing.T) {
	const root = "team"
	endpoint := etcdWithLogins(t, 300)
	withUsers(t, endpoint, root+"/")
	proxy, err := tcpproxy.New(endpoint, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	good, bad := both.NewSecret(goodPassword), both.NewSecret(badPassword)
	var parties []*lockClient
	said := map[string]error{}
	ttl := recipetest.CalmTTL
	dial := func(what, endpoint, password string) (*lockClient, etcdbackend.DialConfig) {
		p := newClient(t, root, ttl)
		p.opts.Session.Hooks = good.Hooks()
		cfg := etcdbackend.DialConfig{
			Endpoints: []string{endpoint}, Username: "worker", Password: password, Timeout: 5 * time.Second,
		}
		said[what] = p.dial(t, cfg)
		parties = append(parties, p)
		return p, cfg
	}

	dial("wrong password", endpoint, badPassword)
	require.ErrorIs(t, said["wrong password"], session.ErrDenied)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, nobody.Close())
	dial("unreachable", nobody.Addr().String(), goodPassword)
	proxy.Hold(fault.Both)
	dial("cut", proxy.Addr(), goodPassword)
	require.ErrorIs(t, said["cut"], session.ErrUnavailable)
	proxy.Heal(fault.Both)

	one, cfg := dial("one", proxy.Addr(), goodPassword)
	two, _ := dial("two", endpoint, goodPassword)
	require.NoError(t, said["one"])
	require.NoError(t, said["two"])
	for what, err := range both.Asked(recipetest.Bounded(t), two.Session, "../secret") {
		said["asked "+what] = err
	}
	foreign := newClient(t, "elsewhere", recipetest.CalmTTL)
	require.NoError(t, foreign.dial(t, cfg))
	for what, err := range both.Asked(recipetest.Bounded(t), foreign.Session, "x") {
		require.ErrorIs(t, err, session.ErrDenied, what)
		assert.ErrorContains(t, err, `READWRITE on the prefix "elsewhere/"`, what)
		said["denied "+what] = err
	}
	parties = append(parties, foreign)
	both.Use(recipetest.Bounded(t), t, one.Session, two.Session, "more/")
	ttl = 5 * time.Second // this one is to be lost
	lost, _ := dial("to be lost", proxy.Addr(), goodPassword)
	require.NoError(t, said["to be lost"])
	h := lost.Lock(t, "x")
	r := two.Begin(recipetest.Bounded(t), "x")
	line := lineOf(t, two, "x", 2)
	proxy.Hold(fault.Both)
	recipetest.Wait(t, h.Context().Done(), "the loss")
	said["lost"], said["unlock"] = context.Cause(h.Context()), h.Unlock()
	proxy.Heal(fault.Both)
	h2 := r.Granted(t)
	stored, err := loggedIn(t, endpoint, "root", nil).Get(recipetest.Bounded(t), "\x00", clientv3.WithFromKey())
	require.NoError(t, err)
	require.NotEmpty(t, stored.Kvs)
	recipetest.Unlock(t, h2)
	for _, p := range parties { // fmt takes no lock
		if p.Session != nil {
			assert.NoError(t, p.Close())
		}
	}

	for name, s := range map[string]*both.Secret{"good": good, "bad": bad} {
		for what, err := range said {
			s.Kept(t, name+", error of "+what, err)
		}
		for _, p := range parties {
			s.Nowhere(t, name+", log", p.Log.String())
			s.Kept(t, name+", options", p.opts)
			s.Kept(t, name+", session", p.Session)
		}
		s.Kept(t, name+", hold", h2)
		s.Nowhere(t, name+", line", line)
		s.Nowhere(t, name+", hooks", good.Told())
		for _, kv := range stored.Kvs {
			s.Nowhere(t, fmt.Sprintf("%s, key %q", name, kv.Key), [][]byte{kv.Key, kv.Value})
		}
		s.Kept(t, name+", configuration", cfg)
		s.Kept(t, name+", configuration", &cfg)
		s.Kept(t, name+", several", []any{cfg, map[string]any{"a": cfg}, struct{ Config etcdbackend.DialConfig }{cfg}})
	}
	assert.NotEmpty(t, good.Told())
}

// lineOf waits until a line is so long.
func lineOf(t *testing.T, p *lockClient, name string, n int) (line any) {
	t.Helper()
	recipetest.Until(t, "a line", func() bool {
		es, err := mutex.New(p.Session, name).Queue(recipetest.Bounded(t))
		line = es
		return err == nil && len(es) == n
	})
	return line
}

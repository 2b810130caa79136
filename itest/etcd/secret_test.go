package etcd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

// Logins has a server of its own.
func (s bothService) Logins(t testing.TB) both.Logins {
	endpoint := etcdWithLogins(t, 300)
	withUsers(t, endpoint, s.root+"/")
	proxy, err := testnet.New(endpoint, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	config := func(server, password string) etcdbackend.DialConfig {
		return etcdbackend.DialConfig{Endpoints: []string{server}, Username: "worker", Password: password, Timeout: 5 * time.Second}
	}
	return both.Logins{
		Proxy: proxy, Server: endpoint, Good: goodPassword, Bad: badPassword,
		Open: func(t testing.TB, server, password string, ttl time.Duration, hooks session.Hooks) (*recipetest.Client, []any, error) {
			p, cfg := newClient(t, s.root, ttl), config(server, password)
			p.opts.Session.Hooks = hooks
			err := p.dial(t, cfg)
			return &p.Client, []any{
				p.opts, cfg, &cfg, []any{cfg, map[string]any{"a": cfg}, struct{ Config etcdbackend.DialConfig }{cfg}},
			}, err
		},
		Denied: func(t testing.TB) (*recipetest.Client, string) {
			p := newClient(t, "elsewhere", recipetest.CalmTTL)
			require.NoError(t, p.dial(t, config(endpoint, goodPassword)))
			return &p.Client, "x"
		},
		Stored: func(t testing.TB) (all []any) {
			r, err := loggedIn(t, endpoint, "root", nil).Get(recipetest.Bounded(t), "\x00", clientv3.WithFromKey())
			require.NoError(t, err)
			for _, kv := range r.Kvs {
				all = append(all, kv.Key, kv.Value)
			}
			return all
		},
		Generated: func(testing.TB) []string { return nil },
	}
}

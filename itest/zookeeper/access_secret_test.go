package zookeeper

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// Logins also has the password that each session makes up to seal its entries with.
func (s bothService) Logins(t testing.TB) both.Logins {
	admin := asAdmin(t, s.ensemble)
	private(t, admin, s.root, zk.PermAll)
	private(t, admin, s.root+"/denied", 0)
	w := &wire{}
	l := both.Logins{Proxy: proxyOf(t, s.ensemble, 0), Server: s.Servers()[0], Good: goodPassword, Bad: badPassword}
	l.Open = func(t testing.TB, server, password string, ttl time.Duration, hooks session.Hooks) (*recipetest.Client, []any, error) {
		p := as(newClient(t, s.root, ttl), password)
		p.opts.Session.Hooks, p.opts.Dial = hooks, w.dial
		backend, err := zkbackend.NewBackend(s.Servers(), &p.opts)
		require.NoError(t, err)
		// It ends during the opening where the connection is cut.
		opened, err := zkbackend.Open(hang.Ending(t, 15*time.Second), []string{server}, &p.opts)
		return &p.Client, []any{p.opts, &p.opts, p.opts.Auth, backend}, p.Opened(t, opened, err)
	}
	l.Denied = func(t testing.TB) (*recipetest.Client, string) {
		c, _, err := l.Open(t, l.Server, goodPassword, recipetest.CalmTTL, session.Hooks{})
		require.NoError(t, err)
		return c, "denied"
	}
	l.Stored = func(t testing.TB) []any { return everything(t, admin, s.root) }
	l.Generated = func(t testing.TB) (all []string) {
		for _, login := range w.logins() {
			if _, password, _ := strings.Cut(login, ":"); password != goodPassword && password != badPassword {
				all = append(all, password)
			}
		}
		assert.Greater(t, len(all), 1, "seals")
		return all
	}
	return l
}

// everything returns all nodes below a path, with their data and ACLs.
func everything(t testing.TB, admin *zk.Conn, path string) (all []any) {
	t.Helper()
	data, _, err := admin.Get(path)
	if err != nil {
		require.ErrorIs(t, err, zk.ErrNoNode)
		return nil
	}
	acl, _, err := admin.GetACL(path)
	if err == nil {
		all = append(all, acl)
	}
	all = append(all, path, data)
	names, _, err := admin.Children(path)
	require.NoError(t, err)
	for _, name := range names {
		all = append(all, everything(t, admin, path+"/"+name)...)
	}
	return all
}

// logins are what was shown to servers, each once.
func (w *wire) logins() (all []string) {
	requests, _ := w.seen()
	for _, f := range requests {
		if f.Op() != zkframe.OpLogin {
			continue
		}
		const scheme = 16 // behind length, number, kind and type
		if login := f.Text(scheme + 4 + len(f.Text(scheme))); !slices.Contains(all, login) {
			all = append(all, login)
		}
	}
	return all
}

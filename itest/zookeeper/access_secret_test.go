package zookeeper

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver/fault"
	"github.com/fairlock/fairlock/zkbackend"
)

// TestPasswordsAreKept goes through all that a login meets, and then looks for the
// passwords in all that was said, printed and stored: those that a user gave, and
// the one that each session makes up to seal its entries with.
func TestPasswordsAreKept(t *testing.T) {
	t.Parallel()
	e, root := shared.use(t)
	admin := asAdmin(t, e)
	private(t, admin, root, zk.PermAll)
	private(t, admin, root+"/denied", 0)
	proxy := proxyOf(t, e, 0)
	secrets := map[string]*both.Secret{"good": both.NewSecret(goodPassword), "bad": both.NewSecret(badPassword)}
	var parties []*lockClient
	said := map[string]error{}
	w := &wire{}
	ttl := recipetest.CalmTTL
	open := func(what, server, password string) *lockClient {
		p := as(newClient(t, root, ttl), password)
		p.opts.Session.Hooks = secrets["good"].Hooks()
		p.opts.Dial = w.dial
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		p.Session, said[what] = zkbackend.Open(ctx, []string{server}, &p.opts)
		if said[what] == nil {
			t.Cleanup(func() { assert.NoError(t, p.Close()) })
		}
		parties = append(parties, p)
		return p
	}

	wrong := open("wrong password", e.Servers()[0], badPassword)
	require.NoError(t, said["wrong password"])
	said["wrong password"] = failed(mutex.New(wrong.Session, "x").Lock(recipetest.Bounded(t)))
	require.ErrorIs(t, said["wrong password"], session.ErrDenied)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, nobody.Close())
	open("unreachable", nobody.Addr().String(), goodPassword)
	proxy.Hold(fault.Both)
	open("cut", proxy.Addr(), goodPassword)
	require.ErrorIs(t, said["cut"], session.ErrUnavailable)
	proxy.Heal(fault.Both)

	one, two := open("one", proxy.Addr(), goodPassword), open("two", e.Servers()[0], goodPassword)
	require.NoError(t, said["one"])
	require.NoError(t, said["two"])
	for what, err := range both.Asked(recipetest.Bounded(t), two.Session, "denied") {
		said["denied "+what] = err
	}
	require.ErrorIs(t, said["denied lock"], session.ErrDenied)
	both.Use(recipetest.Bounded(t), t, one.Session, two.Session, "more/")
	ttl = 5 * time.Second // this one is to be lost
	lost := open("to be lost", proxy.Addr(), goodPassword)
	require.NoError(t, said["to be lost"])
	h := lost.Lock(t, "x")
	r := two.Begin(recipetest.Bounded(t), "x")
	var line any
	recipetest.Until(t, "a line", func() bool {
		es, err := mutex.New(two.Session, "x").Queue(recipetest.Bounded(t))
		line = es
		return err == nil && len(es) == 2
	})
	connections := w.connections(proxy.Addr()) + 1 // of two sessions
	proxy.Reset()                                  // it shows its logins anew
	recipetest.Until(t, "another connection", func() bool { return w.connections(proxy.Addr()) > connections })
	proxy.Hold(fault.Both)
	recipetest.Wait(t, h.Context().Done(), "the loss")
	said["lost"], said["unlock"] = context.Cause(h.Context()), h.Unlock()
	proxy.Heal(fault.Both)
	h2 := r.Granted(t)
	stored := everything(t, admin, root)
	require.NotEmpty(t, stored)
	recipetest.Unlock(t, h2)
	for _, p := range parties { // fmt takes no lock
		if p.Session != nil {
			assert.NoError(t, p.Close())
		}
	}

	for i, seal := range w.logins() {
		if !strings.Contains(seal, goodPassword) && !strings.Contains(seal, badPassword) {
			_, password, _ := strings.Cut(seal, ":")
			secrets[string(rune('a'+i))] = both.NewSecret(password)
		}
	}
	assert.Greater(t, len(secrets), 3, "seals too")
	for name, s := range secrets {
		for what, err := range said {
			s.Kept(t, name+", error of "+what, err)
		}
		for _, p := range parties {
			s.Nowhere(t, name+", log", p.Log.String())
			s.Kept(t, name+", options", p.opts)
			s.Kept(t, name+", options", &p.opts)
			s.Kept(t, name+", logins", p.opts.Auth)
			s.Kept(t, name+", session", p.Session)
		}
		backend, err := zkbackend.NewBackend(e.Servers(), &one.opts)
		require.NoError(t, err)
		s.Kept(t, name+", backend", backend)
		s.Kept(t, name+", hold", h2)
		s.Nowhere(t, name+", line", line)
		s.Nowhere(t, name+", hooks", secrets["good"].Told())
		s.Nowhere(t, name+", store", stored)
	}
	assert.NotEmpty(t, secrets["good"].Told())
}

// everything is what lies below a path, with who may do what there.
func everything(t *testing.T, admin *zk.Conn, path string) (all []any) {
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

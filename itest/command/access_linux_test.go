package command

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/etcdtest/operator"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/stores"
	"github.com/fairlock/fairlock/zktest"
)

const (
	goodPassword = "corr3ct/h@rse"
	badPassword  = "wr0ng-horse"
)

// password writes a file with a password in it.
func password(t *testing.T, word string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(path, []byte(word+"\n"), 0o600))
	return path
}

func TestOnlyTheRightPasswordOpensEtcd(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, nil)
	client := cluster.Client(t)
	ctx := hang.Context(t)
	for _, do := range []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", goodPassword); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		require.NoError(t, do())
	}
	host := strings.TrimPrefix(cluster.Endpoints()[0], "http://")
	url, good, bad := "etcd://"+host, password(t, goodPassword), password(t, badPassword)
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "contexts:\n  it:\n    url: %s\n    user: root\n    password: %q\n", url, goodPassword), 0o644))

	for name, c := range map[string]struct {
		env     []string
		args    []string
		warning string
	}{
		"file":        {args: []string{"--on", url, "--user", "root", "--password-file", good}},
		"environment": {env: []string{"FAIRLOCK_PASSWORD=" + goodPassword}, args: []string{"--on", "etcd://root@" + host}},
		"URL": {
			args:    []string{"--on", "etcd://root:corr3ct%2Fh%40rse@" + host},
			warning: "fairlock: warning: others can see a password on the command line: better --password-file or FAIRLOCK_PASSWORD\n",
		},
		"context": {
			args:    []string{"--config", config, "--context", "it"},
			warning: "fairlock: warning: there is a password in " + config + ", which others can read: chmod 600 it\n",
		},
	} {
		got := executeIn(t, c.env, append([]string{"ls", "-o", "name"}, c.args...)...)

		assert.Equal(t, result{stderr: c.warning}, got, name)
	}

	got := execute(t, url, "ls", "--user", "root", "--password-file", bad)
	assert.Equal(t, result{code: 77, stderr: "fairlock: etcd at " + host + ` refuses the login as "root": check --user and --password-file, or the login in FAIRLOCK_ON` + "\n"}, got)
	got = execute(t, url, "ls")
	assert.Equal(t, 77, got.code)
	assert.Equal(t, "fairlock: etcd at "+host+" needs a login: want --user and --password-file, or --cert and --key\n", got.stderr)
	got = execute(t, url, "ls", "--user", "root")
	assert.Equal(t, 64, got.code)
}

// A server that speaks HTTP/2 but not gRPC answers at once, with text that is no gRPC
// answer.
func TestThePortOfAnotherServerIsReported(t *testing.T) {
	t.Parallel()
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.Config.Protocols = new(http.Protocols)
	other.Config.Protocols.SetUnencryptedHTTP2(true)
	other.Start()
	t.Cleanup(other.Close)
	host := other.Listener.Addr().String()

	got := execute(t, "etcd://"+host, "run", "x", "--", "true")

	assert.Equal(t, result{code: 69, stderr: "fairlock: what answers at " + host + " is no etcd: check the port in FAIRLOCK_ON\n"}, got)
}

// The timeout bounds doctor even if no server answers.
func TestDoctorStopsAtItsTimeout(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })

	by, exited := examined(t, "etcd://"+silent.Addr().String(), "--connect-timeout", "300ms")

	assert.Equal(t, 1, exited)
	assert.Empty(t, by["alarms"], "there was no server to ask")
	require.Len(t, by["connection"], 1, "%v", by)
	assert.Contains(t, by["connection"][0].Text, "within 300ms: it takes connections and does not answer")
}

func TestTLSIsUsedIfTheURLOrAFlagRequiresIt(t *testing.T) {
	t.Parallel()
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		cluster := etcdtest.New(t, &etcdtest.Options{TLS: true})
		cert, key, err := cluster.CA().Issue("root")
		require.NoError(t, err)
		encrypted(t, "etcd", strings.TrimPrefix(cluster.Endpoints()[0], "https://"), cluster.CA().File(), cert, key)
	})
	t.Run("zk", func(t *testing.T) {
		t.Parallel()
		ensemble := zktest.New(t, &zktest.Options{TLS: true})
		cert, key, err := ensemble.CA().Issue("root")
		require.NoError(t, err)
		encrypted(t, "zk", ensemble.Endpoints()[0], ensemble.CA().File(), cert, key)
	})
}

func encrypted(t *testing.T, scheme, host, ca, cert, key string) {
	t.Helper()
	full := fmt.Sprintf("%ss://%s?ca=%s&cert=%s&key=%s", scheme, host, ca, cert, key)
	assert.Equal(t, result{}, execute(t, full, "ls", "-o", "name"), "all in the URL")
	assert.Equal(t, result{}, execute(t, scheme+"://"+host, "ls", "-o", "name", "--ca", ca, "--cert", cert, "--key", key), "flags turn it on")

	want := "within 500ms: it takes connections and does not answer: check the port in FAIRLOCK_ON, whether TLS is wanted there (" + scheme + "s://)"
	var got result
	for range 5 { // a server that stands still for a second does not show that it wants TLS
		got = execute(t, scheme+"://"+host, "ls", "--connect-timeout", "500ms")
		assert.Equal(t, 69, got.code)
		if strings.Contains(got.stderr, want) {
			break
		}
	}
	assert.Contains(t, got.stderr, want)
	got = execute(t, scheme+"s://"+host, "ls", "--connect-timeout", "500ms")
	assert.Equal(t, 69, got.code)
	assert.Contains(t, got.stderr, "within 500ms: tls: failed to verify certificate: x509: certificate signed by unknown authority: check ")
}

func TestAURLHasTheEffectOfTheOptionsOfTheBackends(t *testing.T) {
	t.Parallel()
	cluster, ensemble := etcdtest.New(t, nil), zktest.New(t, nil)
	etcd, zookeeper := "etcd://"+strings.TrimPrefix(cluster.Endpoints()[0], "http://"), "zk://"+ensemble.Endpoints()[0]
	ctx := hang.Context(t)
	for _, c := range []struct{ url, begins string }{
		{etcd, "fairlock/it/"},
		{etcd + "/apps/x?ttl=5s", "apps%2Fx/it/"},
		{etcd + "/x?layout=concurrency", "it/"},
		{zookeeper + "?tick=50ms", "/fairlock/it/"},
		{zookeeper + "/apps/x?tick=50ms&ttl=5s&proof=quorum", "/apps/x/it/"},
		{zookeeper + "?root=/&layout=kazoo", "/it/"},
		{strings.Replace(zookeeper, "://", "://ops:hunter2@", 1) + "/own?acl=auth", "/own/it/"},
	} {
		s, err := stores.Open(ctx, c.url, nil)
		require.NoError(t, err, c.url)
		h, err := mutex.New(s, "it").Lock(ctx)
		require.NoError(t, err, c.url)
		entries, err := s.Queue(ctx, "it")
		require.NoError(t, err)
		require.Len(t, entries, 1)
		assert.True(t, strings.HasPrefix(entries[0].Key, c.begins), "%s: %s", c.url, entries[0].Key)
		if strings.HasPrefix(c.url, "etcd") {
			operator.Session(t, cluster.Client(t))
		}
		if strings.Contains(c.url, "kazoo") {
			assert.Contains(t, entries[0].Key, "__lock__")
		}
		if strings.Contains(c.url, "hunter2") {
			_, _, err = ensemble.Client(t).GetACL("/own/it")
			assert.ErrorIs(t, err, zk.ErrNoAuth, "no other login may read it")
		}
		recipetest.Unlock(t, h)
		require.NoError(t, s.Close())
	}
	leases, err := cluster.Client(t).Leases(ctx)
	require.NoError(t, err)
	assert.Empty(t, leases.Leases, "a closed Session leaves no lease")
}

func TestClosingTheSessionClosesItsConnections(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	url := "etcd://" + strings.TrimPrefix(cluster.Endpoints()[0], "http://")
	s, err := stores.Open(hang.Context(t), url, nil)
	require.NoError(t, err)
	_, err = mutex.New(s, "it").Lock(hang.Context(t))
	require.NoError(t, err)

	require.NoError(t, s.Close())

	hang.Until(t, func() bool { return cluster.Member(0).ClientProxy().Stats().Open == 0 }, "a connection stays open")
}

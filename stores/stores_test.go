package stores_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
)

func ExampleOpen() {
	ctx := context.Background()
	url := "mem://?ttl=5s&label=nightly" // etcds://ops@db-1,db-2/locks?ca=ca.pem&password-file=secret
	s, err := stores.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	h, err := mutex.New(s, "orders/settle").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()

	fmt.Println(s.Options().TTL, s.Options().Label)
	// Output: 5s nightly
}

func TestOptionsWinOverTheURL(t *testing.T) {
	s, err := stores.Open(t.Context(), "mem://?ttl=5s&margin=2s&label=url", &stores.Options{
		Session: session.Options{TTL: 8 * time.Second},
	})
	require.NoError(t, err)

	assert.Equal(t, 8*time.Second, s.Options().TTL)
	assert.Equal(t, 2*time.Second, s.Options().Margin)
	assert.Equal(t, "url", s.Options().Label)
	require.NoError(t, s.Close())
}

func TestSessionsOnOneMemoryShareItsLines(t *testing.T) {
	o := &stores.Options{Memory: membackend.New()}
	a, err := stores.Open(t.Context(), "mem://", o)
	require.NoError(t, err)
	b, err := stores.Open(t.Context(), "mem://", o)
	require.NoError(t, err)
	h, err := mutex.New(a, "it").Lock(t.Context())
	require.NoError(t, err)

	_, err = mutex.New(b, "it").TryLock(t.Context())

	require.ErrorIs(t, err, session.ErrNotAcquired)
	require.NoError(t, h.Unlock())
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	assert.Empty(t, o.Memory.Sessions())
}

func TestOpenSaysWhatIsWrongBeforeItSendsAnything(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	gone := filepath.Join(dir, "gone")
	const open = "stores: open: invalid options: "
	for _, c := range []struct {
		url  string
		o    stores.Options
		want string
	}{
		{url: "consul://db", want: open + `unknown scheme "consul": want etcd, etcds, zk, zks, postgres, postgresql, redis, rediss, valkey, valkeys or mem`},
		{url: "zk://a/prod,b/prod", want: open + "the path stands once, behind the last server; a comma in it is %2C"},
		{url: "etcd://a,b/prod?label=x,c", want: open + "the parameters stand once, behind the last server and the path; a comma in them is %2C"},
		{url: "zk://a?root=/prod%2Cb:1/prod", want: `stores: open: zkbackend: invalid options: the Root "/prod,b:1/prod" goes on with another server: want the path alone`},
		{url: "etcd://db?ttl=soon", want: open + `parameter ttl: "soon" is no duration, want one such as 15s or 500ms`},
		{url: "etcd://db?ttl=1s", want: "stores: open: etcdbackend: session: open: invalid options: TTL 1s is below 2s, the minimum on etcd"},
		{url: "zk://db?tick=1us", want: "stores: open: zkbackend: invalid options: the TickTime is 1µs, at least 1ms is needed"},
		{url: "zk://db?acl=auth", want: "stores: open: invalid options: parameter acl=auth needs a user or a certificate"},
		{url: "etcd://ops@db", want: open + `there is no password for user "ops"`},
		{url: "etcd://db", o: stores.Options{Password: "hunter2"}, want: open + "there is a password and no user"},
		{url: "etcd://a:hunter2@db", o: stores.Options{Username: "ops"}, want: open + `there is no password for user "ops"`},
		{url: "mem://", o: stores.Options{Username: "ops", Password: "hunter2"}, want: open + "mem:// has no users and no TLS"},
		{url: "mem://", o: stores.Options{CAFile: gone}, want: open + "mem:// has no users and no TLS"},
		{url: "etcd://db", o: stores.Options{Timeout: -1}, want: open + "the Timeout -1ns is negative"},
		{url: "etcd://db?ca=x", o: stores.Options{TLS: &tls.Config{MinVersion: tls.VersionTLS13}}, want: open + "TLS and files for it exclude each other"},
		{url: "etcd://u@db?password-file=" + gone, want: open + "read the password: open " + gone + ": no such file or directory"},
		{url: "etcd://u@db", o: stores.Options{PasswordFile: gone}, want: open + "read the password: open " + gone + ": no such file or directory"},
		{url: "etcd://u@db", o: stores.Options{Password: "hunter2", PasswordFile: empty}, want: open + "a Password and a PasswordFile exclude each other"},
		{url: "mem://", o: stores.Options{PasswordFile: empty}, want: open + "mem:// has no users and no TLS"},
		{url: "etcd://db?ca=" + gone, want: open + "read the CA: open " + gone + ": no such file or directory"},
		{url: "zk://db", o: stores.Options{CAFile: empty}, want: open + fmt.Sprintf("read the CA: no certificate in %q", empty)},
		{url: "zk://db", o: stores.Options{CertFile: empty}, want: open + "a certificate and its key go together"},
		{url: "zk://db?cert=" + empty + "&key=" + empty, want: open + "read the certificate: tls: failed to find any PEM data in certificate input"},
		{url: "postgres://db?sslmode=prefer", want: open + "parameter sslmode: prefer is not safe, because a machine in between could switch TLS off: want disable, require, verify-ca or verify-full"},
		{url: "postgres://db", o: stores.Options{Password: "hunter2"}, want: open + "there is a password and no user"},
		{url: "postgres://u@db?password-file=" + gone, want: open + "read the password: open " + gone + ": no such file or directory"},
		{url: "postgres://db?ca=" + gone, want: open + "read the CA: open " + gone + ": no such file or directory"},
		{url: "postgres://db?sslmode=disable", o: stores.Options{CAFile: gone}, want: open + "sslmode=disable, and TLS or files for it, exclude each other"},
		{url: "redis://db/locks", want: open + "the path is the number of a database, 0 if there is none: the root of the locks is a parameter, root="},
		{url: "redis://u@db", want: open + `there is no password for user "u"`},
		{url: "redis://db?password-file=" + gone, want: open + "read the password: open " + gone + ": no such file or directory"},
		{url: "rediss://db?ca=" + gone, want: open + "read the CA: open " + gone + ": no such file or directory"},
		{url: "redis://db?ttl=500ms", want: "stores: open: redisbackend: session: open: invalid options: TTL 500ms is below 1s, the minimum on redis"},
		{url: "redis://db?ttl=20s", want: "stores: open: redisbackend: session: open: invalid options: TTL 20s is above 15s, the maximum on redis"},
		{url: "redis://db?max-ttl=500ms", want: "stores: open: redisbackend: invalid options: MaxTTL 500ms is less than 1s"},
		{url: "redis://db?root=%7Bx", want: "stores: open: redisbackend: invalid options: Root must be at most 512 bytes of UTF-8 without control characters and braces"},
		{url: "postgres://db?ttl=1s", want: "stores: open: pgbackend: session: open: invalid options: TTL 1s is below 2s, the minimum on postgres"},
		{url: "postgres://db?schema=" + strings.Repeat("x", 64), want: `stores: open: pgbackend: invalid options: Schema "` + strings.Repeat("x", 64) + `" must be 1 to 63 bytes of UTF-8 without control characters`},
	} {
		_, err := stores.Open(t.Context(), c.url, &c.o)

		require.ErrorIs(t, err, session.ErrInvalidOptions, c.url)
		assert.EqualError(t, err, c.want)
	}
}

func TestAServiceThatDoesNotAnswerIsUnavailableWhenTheTimeoutHasPassed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections and never answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	for _, scheme := range []string{"etcd", "etcds", "zk", "zks", "postgres", "redis", "rediss"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			ctx := hang.Context(t)

			_, err := stores.Open(ctx, scheme+"://ops:hunter2@"+l.Addr().String()+"?timeout=300ms", nil)

			require.ErrorIs(t, err, session.ErrUnavailable)
			assert.ErrorContains(t, err, l.Addr().String())
			assert.NotContains(t, err.Error(), "hunter2")
			require.NoError(t, ctx.Err(), "the timeout of the URL has ended it")
		})
	}
}

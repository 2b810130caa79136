package command

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/stores"
	"github.com/fairlock/fairlock/testnet"
	"github.com/fairlock/fairlock/zktest"
)

// All commands, and the page, open their sessions in one way.
func TestCertificatesOfTheCommandAreReplacedUnderAHold(t *testing.T) {
	t.Parallel()
	for scheme, start := range map[string]func(*testing.T) (string, *testnet.CA){
		"etcd": func(t *testing.T) (string, *testnet.CA) {
			c := etcdtest.New(t, &etcdtest.Options{TLS: true})
			return strings.TrimPrefix(c.Endpoints()[0], "https://"), c.CA()
		},
		"zk": func(t *testing.T) (string, *testnet.CA) {
			e := zktest.New(t, &zktest.Options{TLS: true})
			return e.Endpoints()[0], e.CA()
		},
		"postgres": func(t *testing.T) (string, *testnet.CA) {
			p, _ := newPostgres(t, &pgtest.Options{TLS: true, Access: []string{"hostssl all worker 127.0.0.1/32 cert"}})
			execSQL(t, p, "create role worker login superuser")
			return p.Addr(), p.CA()
		},
		"redis": func(t *testing.T) (string, *testnet.CA) {
			r := redistest.New(t, &redistest.Options{TLS: true, Config: []string{"tls-auth-clients yes"}})
			return r.Addr(), r.CA()
		},
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			server, ca := start(t)
			proxy, err := testnet.New(server, nil)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
			login, path, hello := "", "", (func(net.Conn) error)(nil)
			if scheme == "postgres" {
				login, path, hello = "worker@", "/postgres", asksForTLS
			}
			both.ReplacedCertificates(t, ca, proxy, hello, func(f both.Files) (*recipetest.Client, error) {
				p := &recipetest.Client{}
				url := scheme + "://" + login + proxy.Addr() + path + "?cert=" + f.Cert + "&key=" + f.Key
				if scheme == "redis" {
					url += "&max-ttl=" + recipetest.CalmTTL.String()
					client, o, err := stores.RedisConfig(url, &stores.Options{CAFile: f.CA})
					if err := errors.Join(err, redisbackend.Init(t.Context(), client, o)); err != nil {
						return p, err
					}
				}
				s, err := stores.Open(t.Context(), url, &stores.Options{CAFile: f.CA, Session: p.SessionOptions(t, recipetest.CalmTTL)})
				return p, p.Opened(t, s, err)
			})
		})
	}
}

// asksForTLS begins a connection to PostgreSQL, which speaks TLS when it is asked to.
func asksForTLS(c net.Conn) error {
	answer := make([]byte, 1)
	if _, err := c.Write([]byte{0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, answer)
	return err
}

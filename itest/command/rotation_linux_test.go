package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
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
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			server, ca := start(t)
			proxy, err := testnet.New(server, nil)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
			both.ReplacedCertificates(t, ca, proxy, func(f both.Files) (*recipetest.Client, error) {
				p := &recipetest.Client{}
				url := scheme + "://" + proxy.Addr() + "?cert=" + f.Cert + "&key=" + f.Key
				s, err := stores.Open(t.Context(), url, &stores.Options{CAFile: f.CA, Session: p.SessionOptions(t, recipetest.CalmTTL)})
				return p, p.Opened(t, s, err)
			})
		})
	}
}

package zookeeper

import (
	"context"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// refusal is an Open that must fail.
type refusal struct {
	name    string
	servers []string
	edit    func(*zkbackend.Options)
	is      error
	says    []string      // key facts of the error, all of them
	most    time.Duration // in which it is told; 0 is until the context ends
}

// shortly is how long the contexts of refusals are.
const shortly = 1500 * time.Millisecond

// tellRefusals has all of them told at the same time.
func tellRefusals(t *testing.T, all []refusal) {
	var told sync.WaitGroup
	defer told.Wait()
	for _, r := range all {
		told.Go(func() {
			p := newClient(t, "/refused", recipetest.CalmTTL)
			if r.edit != nil {
				r.edit(&p.opts)
			}
			ctx, cancel := context.WithTimeout(t.Context(), shortly)
			defer cancel()
			begin := time.Now()
			s, err := zkbackend.Open(ctx, r.servers, &p.opts)
			took := time.Since(begin)
			t.Logf("%s: %s: %v", r.name, took.Round(time.Millisecond), err)
			if !assert.ErrorIs(t, err, r.is, r.name) {
				_ = s.Close()
				return
			}
			for _, fact := range r.says {
				assert.ErrorContains(t, err, fact, r.name)
			}
			assert.NotContains(t, err.Error(), "\n", "%s: on one line", r.name)
			most := r.most
			if most == 0 {
				most = shortly + time.Second
			}
			assert.Less(t, took, most, r.name)
			checkSecrets(t, p, err)
		})
	}
}

func TestAServerThatCannotBeHadIsNamedWithItsReason(t *testing.T) {
	t.Parallel()
	secureWeb := httptest.NewUnstartedServer(nil)
	secureWeb.Config.ErrorLog = log.New(io.Discard, "", 0)
	secureWeb.StartTLS()
	defer secureWeb.Close()
	nobody := both.Nobody(t)
	_, port, err := net.SplitHostPort(nobody)
	require.NoError(t, err)
	secure := strings.TrimPrefix(secureWeb.URL, "https://")
	all := []refusal{
		{name: "no such host", servers: []string{"no-such-host.invalid:2181"}, says: []string{"no-such-host.invalid", "lookup"}},
		{name: "a port that nobody listens at", servers: []string{nobody}, says: []string{nobody, "connection refused"}},
		{name: "the same by name", servers: []string{"localhost:" + port}, says: []string{"localhost:" + port, "connection refused"}},
		{name: "several, each with its reason", servers: []string{nobody, "no-such-host.invalid"}, says: []string{nobody, "connection refused", "no-such-host.invalid", "lookup"}},
		{name: "a web server with TLS", servers: []string{secure}, says: []string{secure, "closed the connection", "wants TLS"}},
	}
	for i := range all {
		all[i].is = session.ErrUnavailable
		all[i].edit = func(o *zkbackend.Options) { o.Auth = []zkbackend.Auth{zkbackend.DigestAuth("worker", goodPassword)} }
	}
	tellRefusals(t, all)

	begin := time.Now()
	_, err = zkbackend.Open(context.Background(), []string{nobody}, nil)
	require.ErrorIs(t, err, session.ErrUnavailable)
	assert.ErrorContains(t, err, "connection refused")
	took := time.Since(begin)
	assert.Greater(t, took, 4*time.Second, "without a deadline of the caller's")
	assert.Less(t, took, 8*time.Second, "without a deadline of the caller's")
}

func TestOptionsThatCannotBeAreToldAtOnce(t *testing.T) {
	t.Parallel()
	e, _ := shared(t)
	good := e.Endpoints()
	all := []refusal{
		{name: "no server", says: []string{"no servers"}},
		{name: "a chroot", servers: []string{good[0] + "/locks"}, says: []string{"Options.Root"}},
		{name: "a connect string", servers: []string{good[0] + "," + good[0]}, says: []string{"is no server", good[0]}},
		{name: "a root that is no path", servers: good, edit: func(o *zkbackend.Options) { o.Root = "/a//b" }, says: []string{`"/a//b"`, "empty part"}},
		{name: "a relative root", servers: good, edit: func(o *zkbackend.Options) { o.Root = "locks" }, says: []string{`"locks"`, "slash"}},
		{name: "a layout that is none", servers: good, edit: func(o *zkbackend.Options) { o.Layout = 7 }, says: []string{"Layout(7)"}},
		{name: "a TTL of nothing", servers: good, edit: func(o *zkbackend.Options) { o.Session.TTL = time.Second }, says: []string{"TTL", "2s"}},
	}
	for i := range all {
		all[i].is, all[i].most = session.ErrInvalidOptions, time.Second
	}
	tellRefusals(t, all)
}

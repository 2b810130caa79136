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

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/metronome"
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
	text    []string      // key facts of the error, all of them
	most    time.Duration // until the error is returned; 0: until the context ends
}

// shortly is how long the contexts of refusals are.
const shortly = 4 * time.Second

// checkRefusals makes all calls at the same time, and checks their errors.
func checkRefusals(t *testing.T, all []refusal) {
	var checks sync.WaitGroup
	defer checks.Wait()
	for _, r := range all {
		checks.Go(func() {
			p := newClient(t, "/refused", recipetest.CalmTTL)
			if r.edit != nil {
				r.edit(&p.opts)
			}
			ctx := hang.Ending(t, shortly)
			watch := metronome.Begin(t)
			s, err := zkbackend.Open(ctx, r.servers, &p.opts)
			took := watch.Passed()
			t.Logf("%s: %s: %v", r.name, took.Round(time.Millisecond), err)
			if !assert.ErrorIs(t, err, r.is, r.name) {
				_ = s.Close()
				return
			}
			for _, fact := range r.text {
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
	closed := both.ClosedAddr(t)
	_, port, err := net.SplitHostPort(closed)
	require.NoError(t, err)
	secure := strings.TrimPrefix(secureWeb.URL, "https://")
	all := []refusal{
		{name: "no such host", servers: []string{"no-such-host.invalid:2181"}, text: []string{"no-such-host.invalid", "lookup"}},
		{name: "a port without a server", servers: []string{closed}, text: []string{closed, "connection refused"}},
		{name: "the same by name", servers: []string{"localhost:" + port}, text: []string{"localhost:" + port, "connection refused"}},
		{name: "several, each with its reason", servers: []string{closed, "no-such-host.invalid"}, text: []string{closed, "connection refused", "no-such-host.invalid", "lookup"}},
		{name: "a web server with TLS", servers: []string{secure}, text: []string{secure, "closed the connection", "wants TLS"}},
	}
	for i := range all {
		all[i].is = session.ErrUnavailable
		all[i].edit = func(o *zkbackend.Options) { o.Auth = []zkbackend.Auth{zkbackend.DigestAuth("worker", goodPassword)} }
	}
	checkRefusals(t, all)

	begin, watch := time.Now(), metronome.Begin(t)
	_, err = zkbackend.Open(context.Background(), []string{closed}, nil)
	require.ErrorIs(t, err, session.ErrUnavailable)
	assert.ErrorContains(t, err, "connection refused")
	assert.Greater(t, time.Since(begin), 4*time.Second, "without a deadline of the caller's")
	assert.Less(t, watch.Passed(), 8*time.Second, "without a deadline of the caller's")
}

func TestInvalidOptionsAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	e, _ := shared(t)
	good := e.Endpoints()
	all := []refusal{
		{name: "no server", text: []string{"no servers"}},
		{name: "a chroot", servers: []string{good[0] + "/locks"}, text: []string{"Options.Root"}},
		{name: "a connect string", servers: []string{good[0] + "," + good[0]}, text: []string{"is more than one server"}},
		{name: "a root that is no path", servers: good, edit: func(o *zkbackend.Options) { o.Root = "/a//b" }, text: []string{`"/a//b"`, "empty part"}},
		{name: "a relative root", servers: good, edit: func(o *zkbackend.Options) { o.Root = "locks" }, text: []string{`"locks"`, "slash"}},
		{name: "a layout that is none", servers: good, edit: func(o *zkbackend.Options) { o.Layout = 7 }, text: []string{"Layout(7)"}},
		{name: "a TTL of nothing", servers: good, edit: func(o *zkbackend.Options) { o.Session.TTL = time.Second }, text: []string{"TTL", "2s"}},
	}
	for i := range all {
		all[i].is, all[i].most = session.ErrInvalidOptions, time.Second
	}
	checkRefusals(t, all)
}

package zookeeper

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// enforced are the properties of a server that carries out nothing before a login with the scheme.
func enforced(scheme string) map[string]string {
	return map[string]string{"zookeeper.enforce.auth.enabled": "true", "zookeeper.enforce.auth.schemes": scheme}
}

// TestWhereALoginIsRequiredASessionEndsAtOnce: each way to the servers logs in, also that of Close. The TTL is longer
// than the test waits for a grant.
func TestWhereALoginIsRequiredASessionEndsAtOnce(t *testing.T) {
	t.Parallel()
	digest := func(o *zkbackend.Options, _ *zktest.Ensemble) {
		o.Auth = []zkbackend.Auth{zkbackend.DigestAuth("worker", goodPassword)}
	}
	for name, c := range map[string]struct {
		opts  zktest.Options
		login func(*zkbackend.Options, *zktest.Ensemble)
	}{
		"digest":      {zktest.Options{Properties: enforced("digest")}, digest},
		"no password": {zktest.Options{Properties: enforced("digest")}, func(*zkbackend.Options, *zktest.Ensemble) {}},
		"x509": {
			zktest.Options{Properties: enforced("x509"), TLS: true},
			func(o *zkbackend.Options, e *zktest.Ensemble) {
				var err error
				o.TLS, err = e.CA().Client("worker")
				require.NoError(t, err)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.opts.MaxSession = recipetest.EventTTL
			e := zktest.New(t, &c.opts)
			client := func() *lockClient {
				p := newClient(t, "/locks", recipetest.EventTTL)
				p.opts.Session.Margin = time.Second // for which Close waits for an Unlock
				c.login(&p.opts, e)
				return p
			}
			holder, waiter := client().open(t, e.Endpoints()...), client().open(t, e.Endpoints()...)
			holder.Lock(t, "a")
			next := waiter.Begin(recipetest.Bounded(t), "a")
			waiter.Queued(t, "a", 2)
			before := sessions(t, e)

			require.NoError(t, holder.Session.Close())

			assert.Equal(t, before-1, sessions(t, e))
			next.Granted(t)
			observes(t, e, client().opts)
		})
	}
}

// observes reads a queue as tools do, and fails the test if that leaves a session.
func observes(t *testing.T, e *zktest.Ensemble, opts zkbackend.Options) {
	t.Helper()
	ctx := recipetest.Bounded(t)
	before := sessions(t, e)
	b, err := zkbackend.NewBackend(e.Endpoints(), &opts)
	require.NoError(t, err)
	s, err := b.Open(ctx, driver.Config{
		Observer: true, Margin: b.Info().Margin, Logger: slog.New(slog.DiscardHandler),
		Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {},
	})
	require.NoError(t, err)
	v, err := s.Read(ctx, driver.ReadRequest{Queue: "a", Fresh: true})
	require.NoError(t, err)
	assert.NotEmpty(t, v.Entries)
	require.NoError(t, s.Close(ctx))
	assert.Equal(t, before, sessions(t, e))
}

// TestALoginThatThePackageDoesNotHaveIsDeniedAtOnce, where a later attempt has no other answer: the error is not
// that of a service that does not answer.
func TestALoginThatThePackageDoesNotHaveIsDeniedAtOnce(t *testing.T) {
	t.Parallel()
	jaas := filepath.Join(t.TempDir(), "jaas.conf")
	require.NoError(t, os.WriteFile(jaas, []byte("Server {\n org.apache.zookeeper.server.auth.DigestLoginModule required\n user_joe=\"secret\";\n};\n"), 0o600))
	for name, props := range map[string]map[string]string{
		"for sessions": {"zookeeper.sessionRequireClientSASLAuth": "true"}, "by scheme": enforced("sasl"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			props["java.security.auth.login.config"] = jaas
			props["zookeeper.authProvider.1"] = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
			e := zktest.New(t, &zktest.Options{Properties: props})
			p := newClient(t, "/locks", recipetest.CalmTTL)
			ctx, cancel := context.WithTimeout(t.Context(), recipetest.CalmTTL)
			defer cancel()
			_, err := zkbackend.Open(ctx, e.Endpoints(), &p.opts)
			require.ErrorIs(t, err, session.ErrDenied)
			require.NotErrorIs(t, err, session.ErrUnavailable)
			assert.ErrorContains(t, err, "require a login that this session does not have")
			assert.ErrorContains(t, err, "by SASL, which this package does not have")
			assert.NoError(t, ctx.Err(), "the answer did not end the attempts")
		})
	}
}

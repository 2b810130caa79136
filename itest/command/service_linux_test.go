package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
	"github.com/fairlock/fairlock/zktest"
)

// withServices runs a case on etcd, on ZooKeeper, on PostgreSQL and on Redis, with the URL of a root or
// a database of its own. If not all cases are to run, it runs the case on one of them, chosen by its
// name.
func withServices(t *testing.T, run func(t *testing.T, url string)) {
	t.Helper()
	inTurn(t, func(t *testing.T, on string) {
		var host string
		var user int
		switch on {
		case "etcd":
			var c *etcdtest.Cluster
			c, user = sharedEtcd.Use(t)
			host = strings.TrimPrefix(c.Endpoints()[0], "http://")
		case "zk":
			var e *zktest.Ensemble
			e, user = sharedZooKeeper.Use(t)
			host = e.Endpoints()[0]
		case "postgres":
			var p *pgtest.Server
			p, user = sharedPostgres.Use(t)
			host = "postgres@" + p.Addr()
			require.NoError(t, p.Exec(hang.Context(t), fmt.Sprintf("create database case%d", user)))
		case "redis":
			var r *redistest.Server
			r, user = sharedRedis.Use(t)
			url := fmt.Sprintf("redis://%s/%d", r.Addr(), user)
			require.NoError(t, redisbackend.InitURL(hang.Context(t), url, nil))
			run(t, url)
			return
		}
		run(t, fmt.Sprintf("%s://%s/case%d", on, host, user))
	})
}

// The servers that cases share. A case needs a server of its own if it injects a fault, or
// reads more than its root.
var (
	sharedEtcd = both.Shared[*etcdtest.Cluster]{
		Start: func(ctx context.Context) (*etcdtest.Cluster, error) { return etcdtest.Start(ctx, nil) },
	}
	sharedZooKeeper = both.Shared[*zktest.Ensemble]{
		Start: func(ctx context.Context) (*zktest.Ensemble, error) { return zktest.Start(ctx, nil) },
	}
	sharedRedis = both.Shared[*redistest.Server]{
		Start: func(ctx context.Context) (*redistest.Server, error) {
			return redistest.Start(ctx, &redistest.Options{Config: []string{"databases 10000"}})
		},
	}
	sharedPostgres = both.Shared[*pgtest.Server]{Start: func(ctx context.Context) (*pgtest.Server, error) { return startPostgres(ctx, nil) }}
)

// startPostgres starts a PostgreSQL. The database postgres has the tables, and so has each that is
// made.
func startPostgres(ctx context.Context, opts *pgtest.Options) (*pgtest.Server, error) {
	p, err := pgtest.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	for _, database := range []string{"postgres", "template1"} {
		err = applied(ctx, p, database)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// applied makes the tables in a database.
func applied(ctx context.Context, p *pgtest.Server, database string) error {
	conn, err := p.Connect(ctx)
	if err != nil {
		return err
	}
	config := conn.Config()
	config.Database = database
	other, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	// No client may use a template while it is copied.
	return errors.Join(pgbackend.Apply(ctx, other, "", 0), other.Close(ctx), conn.Close(ctx))
}

// newPostgres starts a PostgreSQL for one test, and returns it with its URL.
func newPostgres(t *testing.T, opts *pgtest.Options) (p *pgtest.Server, url string) {
	t.Helper()
	p, err := startPostgres(hang.Context(t), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, "postgres://postgres@" + p.Addr() + "/postgres"
}

// newRedis starts a Redis for one test, with a root, and returns it with its URL.
func newRedis(t *testing.T, opts *redistest.Options) (r *redistest.Server, url string) {
	t.Helper()
	r = redistest.New(t, opts)
	url = "redis://" + r.Addr()
	require.NoError(t, redisbackend.InitURL(hang.Context(t), url, nil))
	return r, url
}

// inTurn runs a test on all services, or on the one that its name chooses, in parallel with
// all other tests.
func inTurn(t *testing.T, test func(t *testing.T, on string)) {
	t.Helper()
	t.Parallel()
	for _, on := range tier.Pick(t.Name(), "etcd", "zk", "postgres", "redis") {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			test(t, on)
		})
	}
}

// openSession opens a session on the service with the library.
func openSession(t *testing.T, url, label string) *session.Session {
	t.Helper()
	s, err := stores.Open(hang.Context(t), url, &stores.Options{Session: session.Options{Label: label}, Timeout: hang.Guard})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// waiting calls f, which waits in a queue, in the background, and returns when the queue has
// n entries. f ends with the test.
func waiting(t *testing.T, s *session.Session, name string, n int, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		f(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	hasEntries(t, s, name, n)
}

// result is the exit code of a program, and what it wrote.
type result struct {
	code           int
	stdout, stderr string
}

// lateRelease is what run and hold write when a release is not answered within a second, on a
// machine that stands still.
var lateRelease = regexp.MustCompile(`(?m)^fairlock: [^\n]*the release is not acknowledged: [^\n]*\n`)

// patient returns a URL with which programs wait for a slow machine, as tests do, and not for
// the default of 5 s. --connect-timeout overrides it where a test is about that.
func patient(url string) string {
	switch {
	case url == "", strings.HasPrefix(url, "mem:"), strings.Contains(url, "timeout="):
		return url
	case strings.Contains(url, "?"):
		return url + "&timeout=" + hang.Guard.String()
	}
	return url + "?timeout=" + hang.Guard.String()
}

// execute runs the program on a service and waits for its end. The environment has only
// what the program needs. A lateRelease is left out.
func execute(t *testing.T, url string, args ...string) result {
	t.Helper()
	return executeIn(t, []string{"FAIRLOCK_ON=" + url}, args...)
}

func executeIn(t *testing.T, env []string, args ...string) result {
	t.Helper()
	cmd := program(t, args...)
	for i := range env {
		if url, ok := strings.CutPrefix(env[i], "FAIRLOCK_ON="); ok {
			env[i] = "FAIRLOCK_ON=" + patient(url)
		}
	}
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TZ=UTC"}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	return result{code: code(t, err), stdout: stdout.String(), stderr: lateRelease.ReplaceAllString(stderr.String(), "")}
}

// columns returns the fields of a row of a table.
func columns(row string) []string {
	return regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(row), -1)
}

// rows returns the lines of a text.
func rows(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

package command

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/stores"
	"github.com/fairlock/fairlock/testnet"
)

// postgresFor returns a database of its own, without tables, on the shared server, and its URL for a
// role, "" for the one that may do anything.
func postgresFor(t *testing.T, role string) (p *pgtest.Server, at string) {
	t.Helper()
	p, user := sharedPostgres.Use(t)
	execSQL(t, p, fmt.Sprintf("create database own%d template template0", user))
	if role == "" {
		return p, fmt.Sprintf("postgres://postgres@%s/own%d", p.Addr(), user)
	}
	role = fmt.Sprint(role, user)
	execSQL(t, p, "create role "+role+" login")
	return p, fmt.Sprintf("postgres://%s@%s/own%d", role, p.Addr(), user)
}

func execSQL(t *testing.T, p *pgtest.Server, sql string) {
	t.Helper()
	require.NoError(t, p.Exec(hang.Context(t), sql), sql)
}

// in runs SQL in the database of a URL.
func in(t *testing.T, at, sql string) {
	t.Helper()
	conn, err := pgx.Connect(hang.Context(t), at+"?sslmode=disable")
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(hang.Context(t))) }()
	_, err = conn.Exec(hang.Context(t), sql)
	require.NoError(t, err, sql)
}

// asPostgres returns a URL for the role that may do anything.
func asPostgres(at string) string {
	_, rest, _ := strings.Cut(at, "@")
	return "postgres://postgres@" + rest
}

func TestTablesThatAreMissingAreMadeByTheCommandThatTheErrorNames(t *testing.T) {
	t.Parallel()
	_, at := postgresFor(t, "")
	host, _, _ := strings.Cut(at[len("postgres://postgres@"):], "/")
	got := execute(t, at, "run", "x", "--", "true")
	assert.Equal(t, result{code: 69, stderr: "fairlock: PostgreSQL at " + host + ": the tables are missing or of another version: " +
		"run \"fairlock schema postgres --apply\" with the address of the database\n"}, got)
	assert.Equal(t, got, execute(t, at, "ls"), "a command that only reads")
	by, exited := examined(t, at)
	assert.Equal(t, 1, exited)
	assert.Equal(t, `there are no tables in schema "fairlock"`, by["tables"][0].Text)

	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			assert.Equal(t, result{stderr: "PostgreSQL at " + host + ": schema \"fairlock\" has the tables of version 1; the greatest TTL is 1m0s\n"},
				execute(t, "", "schema", "postgres", "--apply", at))
		})
	}
	both.Wait()

	assert.Equal(t, 0, execute(t, at, "run", "x", "--", "true").code)
	got = execute(t, at, "run", "--ttl", "2m", "x", "--", "true")
	assert.Equal(t, 69, got.code)
	assert.Contains(t, got.stderr, `run "fairlock schema postgres --apply --max-ttl 2m0s" first`)
	assert.Contains(t, execute(t, at, "schema", "postgres", "--apply", "--max-ttl", "2m0s").stderr, "the greatest TTL is 2m0s\n")
	assert.Equal(t, 0, execute(t, at, "run", "--ttl", "2m", "x", "--", "true").code)
	assert.Contains(t, execute(t, at, "schema", "postgres", "--apply").stderr, "the greatest TTL is 2m0s\n", "it does not fall")
	assert.Equal(t, 0, execute(t, at+"?schema=other", "schema", "postgres", "--apply").code)
	assert.Equal(t, 0, execute(t, at+"?schema=other", "run", "x", "--", "true").code)
}

func TestTheSchemaThatIsPrintedCanBeRun(t *testing.T) {
	t.Parallel()
	_, at := postgresFor(t, "")
	got := execute(t, "", "schema", "postgres", "--schema", "locks")
	require.Equal(t, 0, got.code, got.stderr)

	in(t, at, got.stdout)

	assert.Equal(t, 0, execute(t, at+"?schema=locks", "run", "x", "--", "true").code)
}

func TestALoginThatMayNotMakeTablesIsReported(t *testing.T) {
	t.Parallel()
	_, at := postgresFor(t, "none")
	got := execute(t, at, "schema", "postgres", "--apply")
	assert.Equal(t, 77, got.code)
	assert.Regexp(t, `^fairlock: PostgreSQL at \S+: permission denied for database own\d+: "fairlock schema postgres --help" has the privileges that are needed\n$`, got.stderr)

	got = execute(t, strings.Replace(at, "none", "nobody", 1), "ls")
	assert.Equal(t, 77, got.code)
	assert.Regexp(t, `^fairlock: PostgreSQL at \S+ refuses the login: role "nobody\d+" does not exist: check --user and --password-file, or the login in FAIRLOCK_ON\n$`, got.stderr)
	got = execute(t, strings.Replace(at, "/own", "/gone", 1), "run", "x", "--", "true")
	assert.Equal(t, 69, got.code)
	assert.Regexp(t, `^fairlock: PostgreSQL at \S+: database "gone\d+" does not exist: check FAIRLOCK_ON\n$`, got.stderr)
}

// The privileges are those of the help, for a program that locks and for one that reads.
func TestThePrivilegesOfTheHelpAreEnough(t *testing.T) {
	t.Parallel()
	p, at := postgresFor(t, "app")
	in(t, asPostgres(at), execute(t, "", "schema", "postgres").stdout)
	role, _, _ := strings.Cut(strings.TrimPrefix(at, "postgres://"), "@")
	var grants []string
	for line := range strings.Lines(execute(t, "", "schema", "--help").stdout) {
		grant := strings.TrimSpace(line)
		if strings.HasPrefix(grant, "GRANT ") {
			grants = append(grants, strings.Replace(grant, " TO app;", " TO "+role+";", 1))
		}
	}
	require.Len(t, grants, 3)
	in(t, asPostgres(at), strings.Join(grants, "\n"))
	execSQL(t, p, "create role reads_"+role+" login")
	in(t, asPostgres(at), "grant usage on schema fairlock to reads_"+role+"; grant select on all tables in schema fairlock to reads_"+role)
	reader := strings.Replace(at, role, "reads_"+role, 1)
	by, exited := examined(t, at)
	require.Equal(t, 0, exited, "%v", by)
	h := holdOf(t, openSession(t, at, "mine"), "x")

	who := execute(t, reader, "who", "x")

	assert.Equal(t, 0, who.code, who.stderr)
	assert.Contains(t, who.stdout, " mine ")
	assert.Contains(t, execute(t, reader, "ls").stdout, "x ")
	got := execute(t, reader, "run", "y", "--", "true")
	assert.Equal(t, 77, got.code)
	assert.Regexp(t, `: permission denied for table \w+: "fairlock schema postgres --help" has the privileges`, got.stderr)
	by, _ = examined(t, reader)
	assert.Contains(t, by["tables"][0].Text, "this login may read the queues, and not lock: it lacks ")
	assert.Equal(t, schema.Warn, by["tables"][0].Level)
	recipetest.Unlock(t, h)
}

// It may not leave the note by which others notify it, so it reads.
func TestAWatchOfALoginThatMayOnlyReadSeesChanges(t *testing.T) {
	t.Parallel()
	_, at := postgresFor(t, "reader")
	in(t, asPostgres(at), execute(t, "", "schema", "postgres").stdout)
	role, _, _ := strings.Cut(strings.TrimPrefix(at, "postgres://"), "@")
	in(t, asPostgres(at), "grant usage on schema fairlock to "+role+"; grant select on all tables in schema fairlock to "+role)
	r := begin(t, at, "watch", "--interval", "50ms")
	h := holdOf(t, openSession(t, asPostgres(at), ""), "x")
	r.out.WaitFor(t, "granted +x ")
	recipetest.Unlock(t, h)
	r.out.WaitFor(t, "released +x ")
}

func TestDoctorReportsWhatTheServersKeep(t *testing.T) {
	t.Parallel()
	p, at := newPostgres(t, nil)
	by, exited := examined(t, at)
	assert.Equal(t, 0, exited, "%v", by)
	assert.Equal(t, "exclusion, order and tokens always: one server", by["keeps"][0].Text)
	standby, err := p.Standby(hang.Context(t), &pgtest.StandbyOptions{Name: "s1"})
	require.NoError(t, err)
	at = strings.TrimSuffix(at, "/postgres") + "," + standby.Addr() + "/postgres"

	by, exited = examined(t, at)
	assert.Equal(t, 0, exited, "%v", by)
	assert.Equal(t, schema.Warn, by["keeps"][0].Level)
	assert.Equal(t, "exclusion until the primary splits, order until data is lost, tokens until the primary splits: no commit waits for the standby", by["keeps"][0].Text)
	assert.Contains(t, by["alarms"][1].Text, "is well: PostgreSQL 1")
	assert.Contains(t, by["alarms"][1].Text, ", standby, ")

	require.NoError(t, p.Set(hang.Context(t), "synchronous_standby_names", "s1"))
	by, exited = examined(t, at)
	assert.Equal(t, 0, exited, "%v", by)
	assert.Equal(t, "exclusion, order and tokens always: each commit waits for the standby", by["keeps"][0].Text)

	require.NoError(t, p.Reset(hang.Context(t), "synchronous_standby_names"))
	require.NoError(t, standby.CutOff(hang.Context(t)))
	require.NoError(t, standby.Promote(hang.Context(t)))
	by, exited = examined(t, at)
	assert.Equal(t, 1, exited)
	assert.Contains(t, fmt.Sprint(by["keeps"]), "are both primaries: each grants the same locks")
	got := execute(t, at, "run", "x", "--", "true")
	assert.Equal(t, 69, got.code)
	assert.Regexp(t, `^fairlock: PostgreSQL at \S+, \S+: 2 of the servers \[.*\] are primaries: each grants the same locks; stop all but one`, got.stderr)
}

// A promotion is a new life of the data: nothing is granted for the greatest TTL, and every command
// names the reason.
func TestAfterAFailoverCommandsNameTheTimeThatIsLeft(t *testing.T) {
	t.Parallel()
	p, at := newPostgres(t, nil)
	standby, err := p.Standby(hang.Context(t), nil)
	require.NoError(t, err)
	at = strings.TrimSuffix(at, "/postgres") + "," + standby.Addr() + "/postgres"
	require.Equal(t, 0, execute(t, at, "run", "x", "--", "true").code)
	require.NoError(t, standby.CatchUp(hang.Context(t)))
	p.Kill()
	require.NoError(t, standby.Promote(hang.Context(t)))

	got := execute(t, at+"?timeout=2s", "run", "x", "--", "true")
	assert.Equal(t, 69, got.code)
	assert.Regexp(t, `^fairlock: PostgreSQL at \S+, \S+: it has failed over or lost data, and grants nothing for another \S+, until all earlier holds have ended\n$`, got.stderr)
	got = doctor(t, at+"?timeout=2s")
	assert.Equal(t, 1, got.code)
	assert.Regexp(t, `problem +tables +the server has failed over or its data was replaced: nothing is granted for another \d`, got.stdout)
}

func TestDoctorReportsThatNotificationsDoNotArrive(t *testing.T) {
	t.Parallel()
	p, at := newPostgres(t, nil)
	b, err := p.Bouncer(hang.Context(t), nil)
	require.NoError(t, err)
	pooled := strings.Replace(at, p.Addr(), b.Addr(), 1)

	by, exited := examined(t, pooled)
	assert.Equal(t, 0, exited, "%v", by)
	assert.Equal(t, "notifications do not arrive", by["tables"][0].Text)
	by, exited = examined(t, pooled+"?listen="+p.Addr())
	assert.Equal(t, 0, exited, "%v", by)
	assert.Equal(t, schema.Good, by["tables"][0].Level)
	by, _ = examined(t, at+"?listen="+b.Addr())
	assert.Equal(t, "notifications do not arrive from "+b.Addr(), by["tables"][len(by["tables"])-1].Text)
	assert.Equal(t, 0, execute(t, pooled+"?listen="+p.Addr(), "run", "x", "--", "true").code)
	assert.Equal(t, 0, execute(t, pooled+"?listen=off", "run", "x", "--", "true").code)
}

func TestOnlyTheRightPasswordOpensPostgres(t *testing.T) {
	t.Parallel()
	p, at := newPostgres(t, &pgtest.Options{Access: []string{"host all app 127.0.0.1/32 scram-sha-256"}})
	execSQL(t, p, "create role app login superuser password '"+goodPassword+"'")
	host := p.Addr()
	plain := strings.Replace(at, "postgres@", "", 1)
	login := strings.Replace(at, "postgres@", "app@", 1)
	pass := filepath.Join(t.TempDir(), "pgpass")
	require.NoError(t, os.WriteFile(pass, []byte(strings.Replace(host, ":", `:`, 1)+":*:app:"+strings.ReplaceAll(goodPassword, ":", `\:`)+"\n"), 0o600))
	for name, c := range map[string]struct {
		env, args []string
		warning   string
	}{
		"file":            {args: []string{"--on", plain, "--user", "app", "--password-file", password(t, goodPassword)}},
		"environment":     {env: []string{"FAIRLOCK_PASSWORD=" + goodPassword}, args: []string{"--on", login}},
		"psql's variable": {env: []string{"PGPASSWORD=" + goodPassword}, args: []string{"--on", login}},
		"psql's file":     {env: []string{"PGPASSFILE=" + pass}, args: []string{"--on", login}},
		"psql's user":     {env: []string{"PGPASSWORD=" + goodPassword, "PGUSER=app"}, args: []string{"--on", plain}},
		"URL": {
			args:    []string{"--on", strings.Replace(at, "postgres@", "app:"+url.QueryEscape(goodPassword)+"@", 1)},
			warning: "fairlock: warning: others can see a password on the command line: better --password-file or FAIRLOCK_PASSWORD\n",
		},
	} {
		got := executeIn(t, c.env, append([]string{"ls", "-o", "name"}, c.args...)...)

		assert.Equal(t, result{stderr: c.warning}, got, name)
	}
	for _, args := range [][]string{{"--user", "app", "--password-file", password(t, badPassword)}, {"--user", "app"}} {
		got := execute(t, plain, append([]string{"ls"}, args...)...)
		assert.Equal(t, 77, got.code, got.stderr)
		assert.Regexp(t, `^fairlock: PostgreSQL at \S+ refuses the login: .*assword.*: check --user and --password-file, or the login in FAIRLOCK_ON\n$`, got.stderr)
		assert.NotContains(t, got.stderr, badPassword)
	}
}

func TestEachSSLModeRefusesWhatItNames(t *testing.T) {
	t.Parallel()
	p, at := newPostgres(t, &pgtest.Options{TLS: true, Access: []string{"hostssl all worker 127.0.0.1/32 cert"}})
	elsewhere, far := newPostgres(t, &pgtest.Options{TLS: true, ServerCA: func(ca *testnet.CA) *testnet.CA { return ca.Elsewhere("db.example") }})
	other, err := testnet.NewCA(t.TempDir())
	require.NoError(t, err)
	cert, key, err := p.CA().Issue("worker")
	require.NoError(t, err)
	execSQL(t, p, "create role worker login superuser")
	worker := strings.Replace(at, "postgres@", "worker@", 1)
	_, none := newPostgres(t, nil)
	for _, c := range []struct {
		url  string
		args []string
		want string // "" if it is accepted
	}{
		{url: at, args: []string{"--ca", p.CA().File()}},
		{url: at + "?ca=" + p.CA().File()},
		{url: at + "?sslmode=require"},
		{url: at + "?sslmode=verify-ca&ca=" + p.CA().File()},
		{url: worker + "?ca=" + p.CA().File() + "&cert=" + cert + "&key=" + key},
		{url: far + "?sslmode=verify-ca&ca=" + elsewhere.CA().File()},
		{url: far + "?server-name=db.example&ca=" + elsewhere.CA().File()},
		{url: far + "?sslmode=require"},

		{url: at, want: `no pg_hba.conf entry for host "127.0.0.1", user "postgres", database "postgres", no encryption`},
		{url: worker + "?ca=" + p.CA().File(), want: "connection requires a valid client certificate"},
		{url: at + "?ca=" + other.File(), want: "certificate signed by unknown authority"},
		{url: at + "?sslmode=verify-ca&ca=" + other.File(), want: "certificate signed by unknown authority"},
		{url: at + "?sslmode=require&ca=" + other.File(), want: "certificate signed by unknown authority"},
		{url: at + "?sslmode=verify-full", want: "certificate signed by unknown authority"},
		{url: far + "?ca=" + elsewhere.CA().File(), want: "cannot validate certificate for 127.0.0.1"},
		{url: none + "?sslmode=require", want: "it does not speak TLS: check sslmode in FAIRLOCK_ON"},
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			args := append([]string{"ls", "-o", "name"}, c.args...)
			if c.want == "" {
				assert.Equal(t, result{}, execute(t, c.url, args...), c.url)
				return
			}
			got := execute(t, c.url, append(args, "--connect-timeout", "3s")...)
			assert.NotZero(t, got.code, c.url)
			assert.Contains(t, got.stderr, c.want, c.url)
		})
	}
	by, exited := examined(t, at+"?ca="+p.CA().File())
	assert.Equal(t, 0, exited, "%v", by)
	assert.Contains(t, by["alarms"][0].Text, ", TLS 1.3")
}

func TestAURLOfPostgresHasTheEffectOfTheOptions(t *testing.T) {
	t.Parallel()
	p, at := newPostgres(t, nil)
	require.Equal(t, 0, execute(t, at, "schema", "postgres", "--apply", "--schema", "s").code)
	ctx := hang.Context(t)
	port := p.Addr()[strings.LastIndex(p.Addr(), ":")+1:]
	for _, c := range []struct{ url, queues string }{
		{at, "select queue from fairlock.entry"},
		{at + "?schema=s&root=a/b&ttl=5s", "select queue from s.entry"},
		{fmt.Sprintf("postgres://postgres@/postgres?host=%s&port=%s", p.Socket(), port), "select queue from fairlock.entry"},
		{at + "?listen=off&weaker=true", "select queue from fairlock.entry"},
	} {
		s, err := stores.Open(ctx, c.url, nil)
		require.NoError(t, err, c.url)
		h, err := mutex.New(s, "it").Lock(ctx)
		require.NoError(t, err)
		queue, err := pgtest.Value[string](ctx, p, c.queues)
		require.NoError(t, err)
		want := "fairlock\x01qit"
		if strings.Contains(c.url, "root=") {
			want = "a/b\x01qit"
			assert.Equal(t, 5*time.Second, s.Options().TTL)
		}
		assert.Equal(t, want, queue)
		recipetest.Unlock(t, h)
		require.NoError(t, s.Close())
	}
	hang.Until(t, func() bool {
		n, err := pgtest.Value[int](ctx, p, "select count(*) from pg_stat_activity where application_name = 'fairlock'")
		return err == nil && n == 0
	}, "a connection stays open")
}

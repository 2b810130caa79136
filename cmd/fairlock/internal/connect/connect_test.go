package connect

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/session"
)

// with returns flags in an environment of its own.
func with(f Flags, env map[string]string) *Flags {
	f.Getenv = func(name string) string { return env[name] }
	return &f
}

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const contexts = `
context: lab
contexts:
  lab:
    url: zk://lab/locks
  prod:
    url: etcds://db-1,db-2/locks
    ca: ca.pem
    user: ops
    password: of-prod
`

func TestAFlagBeatsTheEnvironmentWhichBeatsTheFile(t *testing.T) {
	path := file(t, "config.yaml", contexts)
	env := func(more ...string) map[string]string {
		all := map[string]string{envConfig: path}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	for _, c := range []struct {
		f        Flags
		env      map[string]string
		at, from string
	}{
		{f: Flags{}, env: env(), at: "ZooKeeper at lab:2181", from: `context "lab" in ` + path},
		{f: Flags{}, env: env(envContext, "prod"), at: "etcd at db-1:2379, db-2:2379", from: `context "prod" in ` + path},
		{f: Flags{}, env: env(envContext, "prod", envOn, "etcd://env"), at: "etcd at env:2379", from: "FAIRLOCK_ON"},
		{f: Flags{Context: "lab"}, env: env(envContext, "prod", envOn, "etcd://env"), at: "ZooKeeper at lab:2181", from: `context "lab" in ` + path},
		{f: Flags{On: "zk://flag"}, env: env(envContext, "prod", envOn, "etcd://env"), at: "ZooKeeper at flag:2181", from: "--on"},
		{f: Flags{Config: path}, env: nil, at: "ZooKeeper at lab:2181", from: `context "lab" in ` + path},
	} {
		got, err := with(c.f, c.env).Target()

		require.NoError(t, err)
		assert.Equal(t, c.at, got.Address.String())
		assert.Equal(t, c.from, got.From)
	}
}

func TestEtcdctlsVariablesAreUsedWhereNothingElseNamesAService(t *testing.T) {
	path, none := file(t, "config.yaml", contexts), file(t, "empty.yaml", "{}")
	env := func(more ...string) map[string]string {
		all := map[string]string{envConfig: none, envEtcdctl: "https://db-1:2379,db-2/", envEtcdctlCA: "ca.pem", envEtcdctlUser: "ops:se:cret"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	got, err := with(Flags{}, env()).Target()
	require.NoError(t, err)
	assert.Equal(t, []any{"etcd at db-1:2379, db-2:2379", envEtcdctl, "ca.pem", "ops", "se:cret"},
		[]any{got.Address.String(), got.From, got.Options.CAFile, got.Options.Username, got.Options.Password})
	assert.True(t, got.secure())
	assert.Empty(t, got.Warnings)

	got, err = with(Flags{}, env(envEtcdctl, "127.0.0.1:1", envEtcdctlUser, "a:b", envEtcdctlPassword, "c", envEtcdctlCA, "")).Target()
	require.NoError(t, err)
	assert.Equal(t, []any{"a:b", "c", false}, []any{got.Options.Username, got.Options.Password, got.secure()})

	for _, c := range []struct {
		f    Flags
		env  map[string]string
		from string
	}{
		{Flags{On: "zk://flag"}, env(), "--on"},
		{Flags{}, env(envOn, "zk://env"), envOn},
		{Flags{}, env(envConfig, path), `context "lab" in ` + path},
	} {
		got, err := with(c.f, c.env).Target()
		require.NoError(t, err)
		assert.Equal(t, c.from, got.From)
		assert.Empty(t, got.Options.CAFile)
		assert.Empty(t, got.Options.Username)
	}

	for endpoints, want := range map[string]string{
		"http://a,https://b": "ETCDCTL_ENDPOINTS: servers with http and with https: want one of the two",
		"unix://a":           "ETCDCTL_ENDPOINTS: unknown scheme: want http or https",
		"a,,b":               "ETCDCTL_ENDPOINTS: a server is empty",
		"http://a/x":         `ETCDCTL_ENDPOINTS: "a/x" has a path behind the server: it belongs into Options.Root, and in a URL behind the last server`,
		"http://u:p@a":       `ETCDCTL_ENDPOINTS: "…@a" has a login in front of the server: user and password have places of their own`,
		"a?label=x":          `ETCDCTL_ENDPOINTS: "a?label=x" is no server, want host or host:port`,
	} {
		_, err := with(Flags{}, env(envEtcdctl, endpoints)).Target()
		assert.EqualError(t, err, want)
	}
}

func TestThePasswordIsThatOfTheUser(t *testing.T) {
	path := file(t, "config.yaml", contexts)
	secret := file(t, "secret", "of-file\n")
	for _, c := range []struct {
		name           string
		f              Flags
		env            map[string]string
		user, password string
	}{
		{"context", Flags{Context: "prod"}, nil, "ops", "of-prod"},
		{"environment", Flags{Context: "prod"}, map[string]string{envPassword: "of-env"}, "ops", "of-env"},
		{"file", Flags{Context: "prod", PasswordFile: secret}, map[string]string{envPassword: "of-env"}, "ops", "of-file"},
		{"file in the environment", Flags{Context: "prod"}, map[string]string{envPasswordFile: secret}, "ops", "of-file"},
		{"another user than the context's password is for", Flags{Context: "prod", User: "ann"}, map[string]string{envPassword: "of-env"}, "ann", "of-env"},
		{"another user of the environment", Flags{Context: "prod"}, map[string]string{envUser: "ann", envPassword: "of-env"}, "ann", "of-env"},
		{"flag's URL beats the environment", Flags{On: "etcd://ann:of-url@db"}, map[string]string{envUser: "ops", envPassword: "of-env"}, "ann", "of-url"},
		{"environment beats the context", Flags{Context: "prod"}, map[string]string{envUser: "ops", envPassword: "of-env"}, "ops", "of-env"},
		{"user in the URL, password elsewhere", Flags{On: "etcd://ann@db"}, map[string]string{envPassword: "of-env"}, "ann", "of-env"},
		{"file in the URL", Flags{On: "etcd://ann@db?password-file=" + secret}, nil, "ann", "of-file"},
		{"no user", Flags{On: "etcd://db"}, nil, "", ""},
		{"memory has no users", Flags{On: "mem://"}, map[string]string{envUser: "ops", envPassword: "of-env"}, "", ""},
	} {
		c.f.Config = path

		got, err := with(c.f, c.env).Target()

		require.NoError(t, err, c.name)
		password, err := got.Password()
		require.NoError(t, err, c.name)
		assert.Equal(t, c.user, got.Options.Username, c.name)
		assert.Equal(t, c.password, password, c.name)
	}
}

func TestTheWordsForTheSameServiceHaveNoPassword(t *testing.T) {
	path, secret := file(t, "config.yaml", contexts), file(t, "secret", "of-file")
	for _, c := range []struct {
		f    Flags
		env  map[string]string
		want string
	}{
		{Flags{On: "etcds://ops:of:url@db-1,db-2/locks?ttl=5s", CA: "ca.pem"}, nil, "--on etcds://ops@db-1,db-2/locks?ttl=5s --ca ca.pem"},
		{Flags{On: "zk://lab", User: "ann", PasswordFile: secret}, nil, "--on zk://lab --user ann --password-file " + secret},
		{Flags{}, map[string]string{envOn: "etcd://ops:x@db"}, "--on etcd://ops@db"},
		{Flags{Context: "prod"}, map[string]string{envConfig: path}, "--context prod"},
		{Flags{Config: path}, nil, "--config " + path + " --context lab"},
		{Flags{}, map[string]string{envConfig: file(t, "empty.yaml", "{}"), envEtcdctl: "db", envEtcdctlUser: "a:b"}, ""},
	} {
		f := with(c.f, c.env)
		got, err := f.Target()
		require.NoError(t, err)

		assert.Equal(t, c.want, strings.Join(f.Words(got), " "))
	}
}

func TestFilesOfAContextAreRelativeToTheConfigFile(t *testing.T) {
	path := file(t, "config.yaml", contexts)

	got, err := with(Flags{Config: path, Context: "prod"}, nil).Target()
	require.NoError(t, err)
	over, err := with(Flags{Config: path, Context: "prod", CA: "here.pem"}, nil).Target()
	require.NoError(t, err)

	assert.Equal(t, filepath.Join(filepath.Dir(path), "ca.pem"), got.Options.CAFile)
	assert.Equal(t, "here.pem", over.Options.CAFile)
	assert.True(t, got.secure())
}

func TestPasswordsThatOthersCanReadCauseAWarning(t *testing.T) {
	path := file(t, "config.yaml", contexts)
	for _, c := range []struct {
		f    Flags
		mode os.FileMode
		want []string
	}{
		{Flags{Context: "prod"}, 0o600, nil},
		{Flags{Context: "lab"}, 0o644, nil},
		{Flags{Context: "prod"}, 0o640, []string{"there is a password in " + path + ", which others can read: chmod 600 it"}},
		{Flags{On: "etcd://ops:x@db"}, 0o600, []string{"others can see a password on the command line: better --password-file or FAIRLOCK_PASSWORD"}},
	} {
		require.NoError(t, os.Chmod(path, c.mode))
		c.f.Config = path
		if c.f.On != "" {
			c.f.Config = ""
		}

		got, err := with(c.f, nil).Target()

		require.NoError(t, err)
		assert.Equal(t, c.want, got.Warnings)
	}
}

func TestTargetReportsWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	good, bad := file(t, "config.yaml", contexts), filepath.Join(dir, "bad.yaml")
	gone := filepath.Join(dir, "gone")
	for _, c := range []struct {
		f    Flags
		env  map[string]string
		text string // of the config file, if not the good one
		want string
	}{
		{f: Flags{}, env: map[string]string{"XDG_CONFIG_HOME": dir}, want: "no service: want --on, or FAIRLOCK_ON, with a URL such as etcd://host:2379, zk://host:2181, postgres://host/database or redis://host:6379"},
		{f: Flags{Context: "x"}, env: map[string]string{"XDG_CONFIG_HOME": dir}, want: `there is no context "x": no config file, or none with contexts (` + filepath.Join(dir, "fairlock", "config.yaml") + ")"},
		{f: Flags{On: "etcd://db", Context: "lab"}, want: "--on and --context exclude each other"},
		{f: Flags{On: "zk://a/x,b/x"}, want: "--on: the path stands once, behind the last server; a comma in it is %2C"},
		{f: Flags{}, env: map[string]string{envOn: "zk://a/x,b"}, want: "FAIRLOCK_ON: the path stands once, behind the last server; a comma in it is %2C"},
		{f: Flags{Config: bad, Context: "a"}, text: "contexts:\n  a:\n    url: zk://a/x,b/x\n", want: `context "a" in ` + bad + ": the path stands once, behind the last server; a comma in it is %2C"},
		{f: Flags{On: "consul://db"}, want: `--on: unknown scheme "consul": want etcd, etcds, zk, zks, postgres, postgresql, redis, rediss, valkey, valkeys or mem`},
		{f: Flags{}, env: map[string]string{envOn: "etcd://db?ttl=x"}, want: `FAIRLOCK_ON: parameter ttl: "x" is no duration, want one such as 15s or 500ms`},
		{f: Flags{Context: "pord", Config: good}, want: `there is no context "pord" in ` + good + ", but lab, prod"},
		{f: Flags{Config: gone}, want: "read the config file: open " + gone + ": no such file or directory"},
		{f: Flags{Config: bad}, text: "contexts:\n  a:\n    in: x\n", want: "config file " + bad + `: unknown field "in"`},
		{f: Flags{Config: bad}, text: "contexts:\n  a:\n    url: x\n    url: y\n", want: "config file " + bad + `: line 4: key "url" already set`},
		{f: Flags{Config: bad}, text: "contexts:\n  a:\n    user: ops\n", want: "config file " + bad + `: context "a" has no URL: want a line such as "url: etcd://host:2379"`},
		{f: Flags{Config: bad, Context: "a"}, text: "contexts:\n  a:\n    url: etcd:/db\n", want: `context "a" in ` + bad + ": want a URL such as etcd://host:2379, zk://host:2181, postgres://host/database or redis://host:6379"},
		{f: Flags{On: "etcd://db", User: "ops"}, want: `there is no password for user "ops": want --password-file or FAIRLOCK_PASSWORD`},
		{f: Flags{Config: good, Context: "prod", User: "ann"}, want: `there is no password for user "ann": want --password-file or FAIRLOCK_PASSWORD`},
		{f: Flags{On: "etcd://db"}, env: map[string]string{envPassword: "hunter2"}, want: "FAIRLOCK_PASSWORD gives a password without a user: want --user, or etcd://user@… in the URL"},
		{f: Flags{On: "etcd://db", User: "ops", PasswordFile: gone}, want: "read the password: open " + gone + ": no such file or directory"},
	} {
		if c.text != "" {
			require.NoError(t, os.WriteFile(bad, []byte(c.text), 0o600))
		}

		_, err := with(c.f, c.env).Target()

		var e *exit.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, exit.Usage, e.Code)
		assert.EqualError(t, err, c.want)
	}
}

func TestABrokenConfigFileIsNotQuoted(t *testing.T) {
	for _, text := range []string{
		"contexts:\n  a:\n    url: x\n    password: [hunter2]\n", "contexts:\n  a:\n    password: {hunter2: x}\n", "contexts: hunter2\n",
		"hunter2", "contexts:\n  a:\n\tpassword: hunter2", "contexts:\n  a:\n    password: 'hunter2", "contexts:\n  a:\n    password: *hunter2\n",
		"contexts:\n  a:\n    password: !!int hunter2\n", "contexts:\n  a: hunter2\n",
	} {
		_, err := with(Flags{Config: file(t, "config.yaml", text)}, nil).Target()

		if assert.Error(t, err, text) {
			assert.NotContains(t, err.Error(), "hunter2")
			assert.NotContains(t, err.Error(), "\n")
		}
	}
}

func TestAServiceThatCannotBeReachedIsNamedWithTheReason(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections, and sends nothing
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	at := l.Addr().String()
	const again = "check --on, the network, and whether the servers run"
	for url, want := range map[string]string{
		"etcd://127.0.0.1:1":                    "cannot reach etcd at 127.0.0.1:1 within 300ms: connection refused: " + again,
		"zk://127.0.0.1:1,127.0.0.1:2":          "cannot reach ZooKeeper at 127.0.0.1:1, 127.0.0.1:2 within 300ms: connection refused: " + again,
		"zk://ops:hunter2@127.0.0.1:1":          "cannot reach ZooKeeper at 127.0.0.1:1 within 300ms: connection refused: " + again,
		"etcd://ops:hunter2@127.0.0.1:1?ttl=5s": "cannot reach etcd at 127.0.0.1:1 within 300ms: connection refused: " + again,
		"zk://" + at + ",127.0.0.1:1": "cannot reach ZooKeeper at " + at + ", 127.0.0.1:1 within 300ms: " + at +
			": it takes connections and does not answer, 127.0.0.1:1: connection refused: " +
			"check the port in --on, whether TLS is wanted there (zks://), and whether the servers have a quorum",
		"etcds://" + at: "cannot reach etcd at " + at + " within 300ms: it takes connections and does not answer: " +
			"check the port in --on, and whether the servers speak TLS there and have a quorum",
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer

			_, err := with(Flags{On: url, Timeout: 300 * time.Millisecond}, nil).Open(t.Context(), &stderr, session.Options{})

			assert.EqualError(t, err, want)
			var e *exit.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, exit.Unavailable, e.Code)
		})
	}
}

// Doctor probes with a context that has no deadline.
func TestAProbeOfASilentServerEnds(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })

	assert.Equal(t, answersNot, Probe(t.Context(), silent.Addr().String(), &tls.Config{MinVersion: tls.VersionTLS13}))
}

// closing returns the address of a server that closes each connection at once, as ZooKeeper does beyond its limit.
func closing(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// TestAServerThatClosesConnectionsHasTheLimitAmongItsCauses, which only ZooKeeper has.
func TestAServerThatClosesConnectionsHasTheLimitAmongItsCauses(t *testing.T) {
	at := closing(t)
	for url, want := range map[string]string{
		"zk://" + at: "cannot reach ZooKeeper at " + at + " within 300ms: it takes connections and closes them at once: check the port in --on, " +
			"whether TLS is wanted there (zks://), and whether the servers have a quorum, and how many connections from here they allow (maxClientCnxns)",
		"zks://" + at: "cannot reach ZooKeeper at " + at + " within 300ms: it closes connections in the TLS handshake: check the port in --on, " +
			"and whether the servers speak TLS there and have a quorum, and how many connections from here they allow (maxClientCnxns)",
		"etcd://" + at: "cannot reach etcd at " + at + " within 300ms: it takes connections and closes them at once: check the port in --on, " +
			"whether TLS is wanted there (etcds://), and whether the servers have a quorum",
	} {
		_, err := with(Flags{On: url, Timeout: 300 * time.Millisecond}, nil).Open(t.Context(), io.Discard, session.Options{})

		assert.EqualError(t, err, want)
	}
}

func TestOpenDoesNotExplainACancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	errHungUp := errors.New("hung up")
	cancel(errHungUp)

	_, err := with(Flags{On: "etcd://127.0.0.1:1"}, nil).Open(ctx, os.Stderr, session.Options{})

	var e *exit.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, exit.Interrupted, e.Code)
	assert.ErrorIs(t, err, errHungUp)
}

func TestAnInvalidParameterIsReportedWithItsSource(t *testing.T) {
	_, err := with(Flags{On: "mem://?ttl=1ms&margin=1h"}, nil).Open(t.Context(), os.Stderr, session.Options{})

	var e *exit.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, exit.Usage, e.Code)
	assert.EqualError(t, err, "--on: session: open: invalid options: TTL 1ms is below 10ms, the minimum on memory")
}

func TestContextsAreCompleted(t *testing.T) {
	f := with(Flags{Config: file(t, "config.yaml", contexts)}, nil)

	assert.Equal(t, []string{"lab", "prod"}, f.Contexts())
	assert.Empty(t, with(Flags{Config: "/nowhere"}, nil).Contexts())
}

func TestTheReasonOfPostgresIsWithoutLayers(t *testing.T) {
	const prefix = "stores: open: pgbackend: session: open: postgres: open: service is unreachable: "
	for raw, want := range map[string]string{
		prefix + "it has failed over: service is unreachable: context deadline exceeded":                            "it has failed over",
		prefix + "context deadline exceeded: service is unreachable: it has failed over":                            "it has failed over",
		prefix + "context deadline exceeded: service is unreachable: it has failed over: context deadline exceeded": "it has failed over",
		prefix + "context deadline exceeded":                                                                        "it answers too slowly",
		prefix + "context deadline exceeded: the server is a standby":                                               "the server is a standby",
	} {
		assert.Equal(t, want, withoutLayers(errors.New(raw)), raw)
	}
}

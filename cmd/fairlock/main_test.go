package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/schema"
)

// call runs a command line. It returns the exit code and what the command wrote to
// stderr.
func call(t *testing.T, args ...string) (int, string) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = w
	code := run(args).Code
	os.Stderr = stderr
	require.NoError(t, w.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return code, string(text)
}

func TestWrongUsageIsReportedAndExits64(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"frob"}, `unknown command "frob"`},
		{[]string{"--frob"}, "unknown flag: --frob"},
		{[]string{"whi", "a"}, `unknown command "whi" for "fairlock": did you mean "who"?`},
		{[]string{"lst"}, `unknown command "lst" for "fairlock": did you mean "ls"?`},
		{[]string{"ls", "--outptu=json"}, "unknown flag: --outptu: did you mean --output?"},
		{[]string{"ls", "--pass", "x"}, "unknown flag: --pass: did you mean --password-file?"},
		{[]string{"ls", "-o", "xml"}, `invalid argument "xml" for "-o, --output" flag: want table, wide, json, yaml, jsonl or name`},
		{[]string{"ls", "--connect-timeout", "0s"}, `invalid argument "0s" for "--connect-timeout" flag: it must be above zero`},
		{[]string{"ls", "--connect-timeout", "5"}, `invalid argument "5" for "--connect-timeout" flag: want a duration such as 5s or 500ms`},
		{[]string{"ls", "--on", "consul://x"}, `--on: unknown scheme "consul": want etcd, etcds, zk, zks, postgres, postgresql, redis, rediss, valkey, valkeys or mem`},
		{[]string{"who", "--on", "mem://", ""}, "session: queue: invalid lock name: it is empty"},
		{[]string{"who"}, "want the NAME of a lock"},
		{[]string{"who", "a", "b"}, `unexpected "b" after the name`},
		{[]string{"flock", "a"}, `unknown command "flock" for "fairlock": did you mean "run"?`},
		{[]string{"unlock", "a"}, `unknown command "unlock" for "fairlock": did you mean "evict"?`},
		{[]string{"run", "-E", "x", "a", "--", "true"}, `invalid argument "x" for "-E, --conflict-exit-code" flag: want a whole number`},
		{[]string{"run", "a", "-c", "echo it's"}, `want "--" before the command: fairlock run a -- sh -c 'echo it'\''s'`},
		{[]string{"run", "a", "-n", "--", "true"}, `flags stand before the name: fairlock run -n a -- true`},
		{[]string{"run", "a", "-w", "10"}, `flags stand before the name: fairlock run -w a`},
		{[]string{"run", "a", "b", "--", "true"}, `want one NAME before "--", and "b" is too much`},
		{[]string{"hold", "a", "-w", "10"}, `flags stand before the name: fairlock hold -w 10 a`},
		{[]string{"run", "a", "echo", "$x"}, `want "--" before the command: fairlock run a -- echo '$x'`},
		{[]string{"run", "-n", "--wait", "3", "a", "--", "true"}, `--nonblock and --wait do not go together`},
		{[]string{"run", "--once", "k", "-s", "a", "--", "true"}, `--once and --shared do not go together`},
		{[]string{"run", "--once", "k", "--permits", "2", "a", "--", "true"}, `--once and --permits do not go together`},
		{[]string{"run", "--id", strings.Repeat("x", 129), "a", "--", "true"}, "--id takes at most 128 bytes of UTF-8"},
		{[]string{"ask", "--on", "mem://"}, "want the NAME of a lock"},
		{[]string{"ask", "-w", "x", "a"}, `invalid argument "x" for "-w, --wait" flag: want a time such as 10, 1.5 or 5m`},
		{[]string{"evict", "a"}, "want --holder, --waiter PLACE or --token N, as fairlock who shows them"},
		{[]string{"evict", "--holder", "--token", "3", "a"}, "--holder and --token do not go together"},
		{[]string{"ls", "--endpoints", "x"}, "unknown flag: --endpoints: did you mean --on, with a URL such as etcd://host:2379, zk://host:2181, postgres://host/database or redis://host:6379?"},
		{[]string{"schema"}, "want the service that has tables: fairlock schema postgres"},
		{[]string{"schema", "etcd"}, `"etcd" has no tables: want fairlock schema postgres`},
		{[]string{"schema", "postgres", "a", "b"}, `unexpected "b" after the URL`},
		{[]string{"schema", "postgres", "etcd://db"}, "--on names etcd at db:2379, which has no tables: want a URL such as postgres://localhost/app"},
		{[]string{"schema", "postgres", "--apply", "--on", "zk://db"}, "--on names ZooKeeper at db:2181, which has no tables: want a URL such as postgres://localhost/app"},
		{[]string{"schema", "postgres", "--on", "postgres://db", "postgres://db"}, "URL and --on or --context exclude each other"},
		{[]string{"schema", "postgres", "--max-ttl", "1"}, "the greatest TTL 1s is less than 2s"},
		{[]string{"schema", "postgres", "--max-ttl", "1", "--apply", "postgres://db"}, "the greatest TTL 1s is less than 2s"},
		{[]string{"resize", "a"}, "want the NAME of a semaphore and how many permits it is to have"},
		{[]string{"resize", "a", "none"}, `"none" is no number of permits: want a whole number, at least 1`},
		{[]string{"resize", "a", "0"}, `"0" is no number of permits: want a whole number, at least 1`},
		{[]string{"profile", "--on", "mem://"}, "want a file for the profile: -O locks.pb.gz"},
		{[]string{"profile", "--on", "mem://", "-O", "/nowhere/x", "--for", "1"}, "-O /nowhere/x: there is no such folder"},
		{[]string{"profile", "--on", "mem://", "-O", "x", "--for", "0"}, "--for must be above zero"},
		{[]string{"ui", "--on", "mem://", "--listen", "0.0.0.0:0"}, "--listen 0.0.0.0:0: others could reach the page there, and it has no login: listen on 127.0.0.1:0, or add --allow-remote"},
		{[]string{"ui", "--on", "mem://", "--listen", ":8080"}, "--listen :8080: others could reach the page there"},
		{[]string{"ui", "--on", "mem://", "--listen", "8080"}, "--listen 8080: want HOST:PORT, such as 127.0.0.1:8080"},
		{[]string{"version", "extra"}, `unknown command "extra" for "fairlock version"`},
	} {
		code, text := call(t, c.args...)

		assert.Equal(t, 64, code, "%v", c.args)
		assert.Contains(t, text, "fairlock: "+c.want)
		assert.Regexp(t, "\nRun 'fairlock( \\w+)? --help' for usage.\n$", text)
	}
}

func TestErrorsAreObjectsIfTheOutputIsObjects(t *testing.T) {
	for _, format := range []string{"json", "yaml", "jsonl"} {
		code, text := call(t, "who", "--on", "mem://", "-o", format, "a")

		assert.Equal(t, exit.NoSuchName, code)
		assert.Equal(t, `{"v":1,"type":"error","code":1,"error":"lock \"a\" has no holder and no waiter"}`+"\n", text)
	}
}

func TestAPrefixThatMatchesNothingIsAnError(t *testing.T) {
	code, text := call(t, "ls", "--on", "mem://", "jobs/")

	assert.Equal(t, exit.NoSuchName, code)
	assert.Equal(t, "fairlock: no lock whose name begins with \"jobs/\" has a holder or a waiter\n", text)
}

func TestLsWithoutLocksIsAnEmptyListAndNoError(t *testing.T) {
	for format, want := range map[string]string{"table": "", "name": "", "json": "[]\n", "yaml": "[]\n", "jsonl": ""} {
		cmd := root()
		var stdout, stderr bytes.Buffer
		cmd.SetOut(&stdout)
		cmd.SetErr(&stderr)
		cmd.SetArgs([]string{"ls", "--on", "mem://", "-o", format})

		require.NoError(t, cmd.Execute())

		assert.Equal(t, want, stdout.String())
		assert.Equal(t, format == "table", stderr.Len() > 0, stderr.String())
	}
}

func TestDoctorWritesOneListOfFindings(t *testing.T) {
	for _, format := range []string{show.JSON, show.YAML} {
		cmd := root()
		var stdout bytes.Buffer
		cmd.SetOut(&stdout)
		cmd.SetArgs([]string{"doctor", "--on", "mem://", "-o", format})

		require.NoError(t, cmd.Execute())

		var found []schema.Finding
		require.NoError(t, yaml.UnmarshalStrict(stdout.Bytes(), &found), "YAML, of which JSON is a part")
		assert.NotEmpty(t, found)
		assert.Equal(t, format == show.JSON, stdout.Bytes()[0] == '[', "%s", stdout.String())
	}
}

func TestADoctorThatCannotGoOnWritesWhatItHasFound(t *testing.T) {
	var stdout bytes.Buffer
	cmd := root()
	cmd.SetOut(&stdout)
	cmd.SetArgs([]string{"doctor", "--on", "etcd://127.0.0.1:1", "-o", "json"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	err := cmd.ExecuteContext(ctx)

	require.ErrorIs(t, err, context.Canceled)
	assert.Contains(t, stdout.String(), `"text": "no server could be asked for alarms: `)
}

func TestNearest(t *testing.T) {
	words := []string{"ls", "list", "who", "watch", "orders/settle", "password-file"}
	for word, want := range map[string]string{
		"lss": "ls", "sl": "ls", "watcg": "watch", "wacth": "watch", "WHO": "who", "order/setle": "orders/settle", "password": "password-file",
		"demo": "", "x": "", "l": "", "": "", "orders/pay": "",
	} {
		assert.Equal(t, want, nearest(word, words), word)
	}
}

func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := t.TempDir()

	code, text := call(t, "man", dir)

	require.Equal(t, exit.OK, code, text)
	for _, c := range root().Commands() {
		if c.Hidden {
			continue
		}
		page, err := os.ReadFile(filepath.Join(dir, "fairlock-"+c.Name()+".1"))
		require.NoError(t, err)
		assert.Contains(t, string(page), ".SH NAME\nfairlock\\-"+strings.ReplaceAll(c.Name(), "-", `\-`)+` \- `)
		for line := range bytes.Lines(page) {
			assert.Regexp(t, `^(\.(TH|SH|PP|TP|B|BR|nf|fi)\b|[^.'])`, string(line), "roff would take it for a request")
		}
	}
}

func TestEveryCommandHasHelpThatFits80Columns(t *testing.T) {
	all := [][]string{{"--help"}}
	for _, c := range root().Commands() {
		all = append(all, []string{c.Name(), "--help"})
	}
	for _, args := range all {
		cmd := root()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(args)

		require.NoError(t, cmd.Execute())
		assert.NotEmpty(t, out.String())
		assert.NotContains(t, out.String(), "worker  ", "it is hidden")
		for line := range bytes.Lines(out.Bytes()) {
			assert.LessOrEqual(t, len(bytes.TrimRight(line, "\n")), 80, "%s", line)
		}
	}
}

func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	cmd := root()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	require.NoError(t, cmd.Execute())
	return out.String()
}

func TestTheFirstScreenOfHelpIsTheCommands(t *testing.T) {
	lines := strings.Split(helpOf(t, "--help"), "\n")
	for _, c := range root().Commands() {
		if c.IsAvailableCommand() {
			assert.Contains(t, strings.Join(lines[:min(len(lines), 40)], "\n"), "\n  "+c.Name()+" ")
		}
	}
	assert.Contains(t, strings.Join(lines[:13], "\n"), "\n  run ")
}

func TestFlagsOfTheConnectionAreDescribedInOnePlace(t *testing.T) {
	const where = `Run "fairlock help connection" for the flags that name the service.`
	topic := helpOf(t, "help", "connection")
	for _, flag := range []string{"--on", "--context", "--ca", "--password-file", "--connect-timeout", "ETCDCTL_ENDPOINTS", "FAIRLOCK_ON"} {
		assert.Contains(t, topic, flag)
	}
	for _, c := range root().Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		help := helpOf(t, c.Name(), "--help")
		connects := c.GroupID != groupOther || c.Name() == "bench"
		assert.Equal(t, connects, strings.Contains(help, where), c.Name())
		assert.NotContains(t, help, "--connect-timeout", c.Name())
	}
}

func TestVersion(t *testing.T) {
	for _, word := range []string{"version", "--version"} {
		cmd := root()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs([]string{word})

		require.NoError(t, cmd.Execute())
		assert.Regexp(t, `^fairlock \S+ go1\.\S+( \S+)*\n$`, out.String())
	}
}

func TestSchemaPrintsTheTablesOfItsSchema(t *testing.T) {
	t.Setenv("FAIRLOCK_ON", "etcd://db")
	out := helpOf(t, "schema", "postgres")
	assert.Contains(t, out, `create table if not exists "fairlock".entry (`)
	assert.Contains(t, out, ", 60000) returning one")
	assert.Contains(t, helpOf(t, "schema", "postgres", "--schema", "locks", "--max-ttl", "5m"), `create schema if not exists "locks";`)
	assert.Contains(t, helpOf(t, "schema", "postgres", "postgres://db?schema=x"), `create schema if not exists "x";`)
	t.Setenv("FAIRLOCK_ON", "postgres://db?schema=y")
	assert.Contains(t, helpOf(t, "schema", "postgres"), `create schema if not exists "y";`)
	assert.Contains(t, helpOf(t, "schema", "postgres", "--schema", "z"), `create schema if not exists "z";`)
}

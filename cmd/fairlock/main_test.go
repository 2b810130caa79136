package main

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/worker"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
)

// call runs a command line and returns its exit code and what it wrote to
// stderr.
func call(t *testing.T, args ...string) (int, string) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = w
	code := run(args)
	os.Stderr = stderr
	require.NoError(t, w.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return code, string(text)
}

func TestWrongUseIsToldAndExits64(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"frob"}, `unknown command "frob"`},
		{[]string{"--frob"}, "unknown flag: --frob"},
		{[]string{"demo", "--frob"}, "unknown flag: --frob"},
		{[]string{"demo", "extra"}, `unknown command "extra" for "fairlock demo"`},
		{[]string{"demo", "--plain=maybe"}, `invalid argument "maybe"`},
		{[]string{"demo", "--on", "consul"}, `invalid argument "consul" for "--on" flag: must be etcd or zk`},
		{[]string{"demo", "--on="}, `invalid argument "" for "--on" flag: must be etcd or zk`},
		{[]string{"version", "extra"}, `unknown command "extra" for "fairlock version"`},
	} {
		code, text := call(t, c.args...)

		assert.Equal(t, 64, code, "%v", c.args)
		assert.Contains(t, text, "fairlock: "+c.want)
		assert.Contains(t, text, "Run 'fairlock --help'")
	}
}

func TestHelpIsThere(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"demo", "--help"}, {"version", "--help"}} {
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

func TestVersion(t *testing.T) {
	cmd := root()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"version"})

	require.NoError(t, cmd.Execute())
	assert.Regexp(t, `^fairlock \S+ go1\.\S+( \S+)*\n$`, out.String())
}

func TestAWorkerUnderstandsWhatTheDemoTellsIt(t *testing.T) {
	want := worker.Config{Name: "dan", Lock: "ledger", On: "etcd", Server: "http://e", Ledger: "http://l", TTL: 2e9, Work: 3e8, Careless: true}
	cmd, args, err := root().Find(workerArgs(want))
	require.NoError(t, err)

	require.NoError(t, cmd.ParseFlags(args))

	assert.True(t, cmd.Hidden)
	for flag, value := range map[string]string{
		"name": "dan", "lock": "ledger", "on": "etcd", "server": "http://e", "ledger": "http://l", "ttl": "2s", "work": "300ms", "careless": "true",
	} {
		assert.Equal(t, value, cmd.Flags().Lookup(flag).Value.String(), flag)
	}
}

func TestTheDemoIsOnEtcdUnlessToldOtherwise(t *testing.T) {
	cmd := demoCommand()
	require.Equal(t, "etcd", cmd.Flags().Lookup("on").Value.String())

	require.NoError(t, cmd.ParseFlags([]string{"--on", "zk"}))

	assert.Equal(t, "zk", cmd.Flags().Lookup("on").Value.String())
}

func TestAWorkerWithoutAServiceSaysSo(t *testing.T) {
	for on, want := range map[string]string{
		"etcd":   "etcdbackend: dial: invalid options: an endpoint is empty",
		"zk":     `zkbackend: invalid options: "" is no server`,
		"consul": `no service is called "consul"`,
	} {
		code, text := call(t, "demo", "worker", "--name", "ada", "--lock", "ledger", "--on", on, "--server", "")

		assert.Equal(t, exit.Software, code)
		assert.Contains(t, text, "fairlock: worker ada: "+want)
	}
}

package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/worker"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/internal/glossary"
)

func TestWrongUsageIsReported(t *testing.T) {
	for want, args := range map[string][]string{
		"demo: unknown flag: --frob":                          {"--frob"},
		`demo: unknown command "extra" for "demo"`:            {"extra"},
		`demo: --on consul: want etcd, zk, postgres or redis`: {"--on", "consul"},
		`demo: --on : want etcd, zk, postgres or redis`:       {"--on="},
		"--ui is on etcd only":                                {"--ui", "--on", "zk"},
		"others could reach the page there, and it has ":      {"--ui", "--listen", ":0"},
	} {
		code, sig, err := run(args)

		assert.Equal(t, exit.Usage, code, args)
		assert.Zero(t, sig)
		assert.ErrorContains(t, err, want)
	}
}

func TestGlossaryOfHelp(t *testing.T) {
	cmd := root()
	var out bytes.Buffer
	cmd.SetOut(&out)
	require.NoError(t, cmd.Help())

	assert.Empty(t, glossary.Find(out.String(), nil))
	for line := range bytes.Lines(out.Bytes()) {
		assert.LessOrEqual(t, len(line), 81, "%s", line)
	}
}

func TestAWorkerParsesTheArgumentsOfTheDemo(t *testing.T) {
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

func TestTheDemoIsOnEtcdByDefault(t *testing.T) {
	cmd := root()
	require.Equal(t, "etcd", cmd.Flags().Lookup("on").Value.String())

	require.NoError(t, cmd.ParseFlags([]string{"--on", "zk"}))

	assert.Equal(t, "zk", cmd.Flags().Lookup("on").Value.String())
}

func TestAWorkerWithoutAServiceReportsWhy(t *testing.T) {
	for on, want := range map[string]string{
		"etcd":   "etcdbackend: dial: invalid options: endpoints: a server is empty",
		"zk":     "zkbackend: invalid options: a server is empty",
		"consul": `no service is called "consul"`,
	} {
		code, _, err := run([]string{"worker", "--name", "ada", "--lock", "ledger", "--on", on, "--server", ""})

		assert.Equal(t, exit.Software, code)
		assert.ErrorContains(t, err, "worker ada: open a session: "+want)
	}
}

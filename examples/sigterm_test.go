//go:build unix

// Package examples_test tests what all the examples have in common.
package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/etcdtest/operator"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/progtest"
)

// programs is the folder of the built examples.
var programs string

func TestMain(m *testing.M) { os.Exit(build(m)) }

// build builds the examples and runs the tests.
func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fairlock-examples-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs = dir
	if out, err := exec.Command("go", "build", "-o", dir, "./...").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// program is a running example.
type program struct {
	*exec.Cmd
	out progtest.Buffer
}

// start runs an example on a cluster.
func start(t *testing.T, c *etcdtest.Cluster, name string, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.CommandContext(t.Context(), filepath.Join(programs, name), args...)}
	p.Env = append(os.Environ(), "FAIRLOCK_ETCD="+c.Endpoints()[0])
	p.Stdout, p.Stderr = &p.out, &p.out
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// terminate sends SIGTERM, waits for the end of the program, and returns how it ended.
func (p *program) terminate(t *testing.T) error {
	t.Helper()
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	return p.Wait()
}

// A dead program keeps its session, and the locks with it, for the TTL.
func TestSIGTERMLeavesNoSession(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		holds string
	}{
		"settle":  {[]string{"-orders", "1000000"}, "order 1 settled"},
		"workers": {nil, "on gpu"},
		"config":  {nil, "read "},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := etcdtest.New(t, nil)
			client := cluster.Client(t)
			for range 10 { // a session waits for 5 s for its end, so a program that stands still leaves it
				p := start(t, cluster, name, append(c.args, "-endpoints", cluster.Endpoints()[0])...)
				p.out.WaitFor(t, c.holds)
				id := operator.Session(t, client)

				_ = p.terminate(t) // an interrupted program may report that with its exit code

				left, err := client.Leases(t.Context())
				require.NoError(t, err)
				if len(left.Leases) == 0 {
					return
				}
				_, err = client.Revoke(t.Context(), id)
				require.NoError(t, err)
			}
			require.Fail(t, "the session was left each time")
		})
	}
}

// The TTL is longer than the test waits: the successor leads only because the leader
// has resigned.
func TestOnSIGTERMTheNextCandidateLeadsBeforeTheTTLHasPassed(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	s, err := etcdbackend.Open(t.Context(), cluster.Client(t), nil)
	require.NoError(t, err)
	defer s.Close()
	candidate := func(name string) *program {
		return start(t, cluster, "leader", "-node", name, "-ttl", (2 * hang.Guard).String(), "-runs", "1000000")
	}
	a := candidate("a")
	a.out.WaitFor(t, "run 1 by a")
	b := candidate("b")
	hang.Until(t, func() bool {
		q, err := s.Queue(t.Context(), "hourly")
		return err == nil && len(q) == 2
	}, "b waits")

	assert.NoError(t, a.terminate(t), "SIGTERM is no failure: %s", &a.out)

	b.out.WaitFor(t, "run [0-9]+ by b")
	assert.NoError(t, b.terminate(t), "SIGTERM is no failure: %s", &b.out)
	q, err := s.Queue(t.Context(), "hourly")
	require.NoError(t, err)
	assert.Empty(t, q)
}

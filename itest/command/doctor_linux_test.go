package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/zktest"
)

// examined returns the findings of doctor, by check, and its exit code.
func examined(t *testing.T, url string, args ...string) (map[string][]schema.Finding, int) {
	t.Helper()
	got := doctor(t, url, append([]string{"-o", "json"}, args...)...)
	assert.Empty(t, got.stderr)
	var all []schema.Finding
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &all), got.stdout)
	by := map[string][]schema.Finding{}
	for _, f := range all {
		by[f.Check] = append(by[f.Check], f)
	}
	return by, got.code
}

// doctor runs doctor, at most ten times if a server stands still: doctor reports one that does
// not answer within two seconds.
func doctor(t *testing.T, url string, args ...string) (got result) {
	t.Helper()
	for range 10 {
		got = execute(t, url, append([]string{"doctor"}, args...)...)
		if strings.Count(got.stdout, " does not report its status: ") <= strings.Count(got.stdout, "connection refused") {
			break
		}
	}
	return got
}

func TestDoctorFindsNoProblemOnAHealthyService(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		a := openSession(t, url, "")
		_, err := mutex.New(a, "a").Lock(hang.Context(t))
		require.NoError(t, err)

		got := doctor(t, url)

		assert.Equal(t, 0, got.code, got.stdout)
		assert.Empty(t, got.stderr)
		for _, want := range []string{
			`ok +alarms +127.0.0.1:\d+ is well: (etcd 3|ZooKeeper 3|PostgreSQL 1\d|Redis 7)\.`, `ok +keeps +exclusion(, order and tokens always| always, order until data is lost, tokens until data is lost: one server)`, `ok +connection +a session on .* was opened in `,
			`(ok|warning) +round-trip +a read takes `, `ok +clock +`, `ok +entries +1 entry in 1 queue,`, `ok +tokens +`, `ok +deadlock +no callers`,
		} {
			assert.Regexp(t, want, got.stdout)
		}
	})
}

func TestDoctorNamesADeadlock(t *testing.T) {
	withServices(t, deadlock)
}

func deadlock(t *testing.T, url string) {
	a, b := openSession(t, url, "ann"), openSession(t, url, "bob")
	ha, err := mutex.New(a, "x").Lock(hang.Context(t))
	require.NoError(t, err)
	hb, err := mutex.New(b, "y").Lock(hang.Context(t))
	require.NoError(t, err)
	inside := func(ctx, hold context.Context) context.Context {
		in, cancel := context.WithCancel(hold)
		context.AfterFunc(ctx, cancel)
		return in
	}
	waiting(t, a, "y", 2, func(ctx context.Context) { _, _ = mutex.New(a, "y").Lock(inside(ctx, ha.Context())) })
	by, exited := examined(t, url)
	require.Equal(t, 0, exited, "one caller waits, and that is no cycle: %v", by)
	waiting(t, b, "x", 2, func(ctx context.Context) { _, _ = mutex.New(b, "x").Lock(inside(ctx, hb.Context())) })

	by, exited = examined(t, url)

	assert.Equal(t, 1, exited)
	require.Len(t, by["deadlock"], 1)
	d := by["deadlock"][0]
	assert.Equal(t, schema.Bad, d.Level)
	assert.ElementsMatch(t, []string{"x", "y"}, d.Names)
	assert.Regexp(t, `\(ann\) holds "x" and waits for "y"`, d.Text)
	assert.Regexp(t, `\(bob\) holds "y" and waits for "x"`, d.Text)

	recipetest.Unlock(t, hb)
	hasEntries(t, a, "y", 1)
	by, exited = examined(t, url)
	assert.Equal(t, 0, exited, "%v", by)
}

// Each of two commands runs under one lock, and starts a command that needs the other lock.
func TestDoctorNamesADeadlockOfNestedCommands(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s, exe, ready := openSession(t, url, ""), os.Getenv(binaryEnv), filepath.Join(t.TempDir(), "go")
		late := fmt.Sprintf("until [ -e %s ]; do sleep 0.02; done; exec %s run x -- true", ready, exe)
		second := begin(t, url, "run", "y", "--", "sh", "-c", late)
		hasEntries(t, s, "y", 1)
		first := begin(t, url, "run", "x", "--", exe, "run", "y", "--", "true")
		hasEntries(t, s, "y", 2)
		by, exited := examined(t, url)
		require.Equal(t, 0, exited, "one caller waits, and that is no cycle: %v", by)
		require.NoError(t, os.WriteFile(ready, nil, 0o600))
		hasEntries(t, s, "x", 2)

		by, exited = examined(t, url)

		assert.Equal(t, 1, exited)
		require.Len(t, by["deadlock"], 1)
		assert.ElementsMatch(t, []string{"x", "y"}, by["deadlock"][0].Names)

		require.NoError(t, first.Process.Signal(syscall.SIGTERM))
		assert.NotZero(t, first.code(t))
		assert.Zero(t, second.code(t), second.err.String())
		by, exited = examined(t, url)
		assert.Equal(t, 0, exited, "%v", by)
	})
}

func TestDoctorFindsEntriesThatNeverExpire(t *testing.T) {
	t.Parallel()
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		cluster := etcdtest.New(t, nil)
		url := "etcd://" + strings.TrimPrefix(cluster.Endpoints()[0], "http://")
		_, err := cluster.Client(t).Put(hang.Context(t), "fairlock/a/by-hand", "")
		require.NoError(t, err)
		stays(t, url, `"fairlock/a/by-hand" in the queue of "a" has no session: it never expires`)
	})
	t.Run("zk", func(t *testing.T) {
		t.Parallel()
		ensemble := zktest.New(t, nil)
		conn := ensemble.Client(t)
		for _, path := range []string{"/fairlock", "/fairlock/a", "/fairlock/a/by-hand-lock-0000000000"} {
			_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		stays(t, "zk://"+ensemble.Endpoints()[0], `"/fairlock/a/by-hand-lock-0000000000" in the queue of "a" has no session: it never expires`)
	})
}

func stays(t *testing.T, url, want string) {
	t.Helper()
	by, exited := examined(t, url)
	assert.Equal(t, 1, exited)
	assert.Equal(t, want, by["entries"][0].Text)
	by, exited = examined(t, url, "b")
	assert.Equal(t, 0, exited, "another name: %v", by)
	assert.Contains(t, execute(t, url, "who", "a").stdout, "(foreign, no session)")
	assert.Contains(t, execute(t, url, "ls").stdout, "foreign")
}

func TestDoctorReportsAnAlarmThatPreventsLocking(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, nil)
	client := cluster.Client(t)
	url := "etcd://" + strings.TrimPrefix(cluster.Endpoints()[0], "http://")
	_, err := mutex.New(openSession(t, url, ""), "jobs").Lock(hang.Context(t))
	require.NoError(t, err)
	_, err = pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(hang.Context(t),
		&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE})
	require.NoError(t, err)

	by, exited := examined(t, url)

	assert.Equal(t, 1, exited)
	var texts []string
	for _, f := range by["alarms"] {
		texts = append(texts, f.Text)
	}
	assert.Contains(t, texts, "the alarm NOSPACE is raised")
	require.Len(t, by["connection"], 1)
	assert.Equal(t, schema.Bad, by["connection"][0].Level)
	assert.NotEmpty(t, by["entries"], "which it reads without a session")
	assert.NotEmpty(t, by["deadlock"])
	assert.Empty(t, by["skipped"])
}

func TestDoctorNamesTheServerThatDoesNotAnswer(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		by, exited := examined(t, regexp.MustCompile(`(:\d+)/`).ReplaceAllString(url, "$1,127.0.0.1:1/"))

		assert.Equal(t, 1, exited)
		require.Len(t, by["connection"], 2, "%v", by)
		assert.Contains(t, by["connection"][0].Text, "127.0.0.1:1 does not report its status: ")
		assert.Contains(t, by["connection"][0].Text, "connection refused")
		assert.Equal(t, schema.Good, by["connection"][1].Level)
	})
}

func TestDoctorNamesTheChecksItSkipped(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		scheme, _, _ := strings.Cut(url, "://")
		got := execute(t, scheme+"://127.0.0.1:1", "doctor", "--connect-timeout", "1s")

		assert.Equal(t, 1, got.code)
		r := rows(got.stdout)
		require.Len(t, r, 2, "each problem once: %s", got.stdout)
		assert.Regexp(t, `^problem +connection +cannot reach \S+ at 127.0.0.1:1 within 1s: connection refused`, r[0])
		tables := ""
		switch scheme {
		case "postgres":
			tables = "tables, "
		case "redis":
			tables = "root, "
		}
		assert.Regexp(t, `^warning +skipped +without a connection .*: alarms, keeps, `+tables+`round-trip, clock, entries, tokens, deadlock$`, r[1])
	})
}

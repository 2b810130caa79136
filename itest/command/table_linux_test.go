package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/zktest"
)

// The claims of docs/comparison.md about fairlock run that no other test shows.

func TestTheFirstCommandToWaitRunsFirst(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		h := holdOf(t, s, "x")
		file := filepath.Join(t.TempDir(), "turns")
		var all []*running
		var want strings.Builder
		for i := range 6 {
			all = append(all, begin(t, url, "run", "x", "--", "sh", "-c", fmt.Sprintf("echo %d >>%s", i, file)))
			hasEntries(t, s, "x", i+2)
			want.WriteString(fmt.Sprintln(i))
		}

		recipetest.Unlock(t, h)

		for _, r := range all {
			require.Equal(t, 0, r.code(t), r.err.String())
		}
		turns, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, want.String(), string(turns))
	})
}

func TestTheCommandReadsTheStandardInput(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		r := prepared(t, url, "run", "x", "--", "cat")
		r.Stdin = strings.NewReader("one\ntwo\n")
		r.start(t)

		assert.Equal(t, 0, r.code(t))
		assert.Equal(t, "one\ntwo\n", r.out.String())
	})
}

func TestReadersRunTogetherAndWritersDoNot(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		s := openSession(t, url, "")
		for range 2 {
			r := prepared(t, url, "run", "-s", "cfg", "--", "sh", "-c", "echo reads; read line; exit 3")
			_, err := r.StdinPipe()
			require.NoError(t, err)
			r.start(t)
			r.out.WaitFor(t, "reads")
		}
		hasEntries(t, s, "cfg", 2)

		assert.Equal(t, 75, execute(t, url, "run", "-n", "-x", "cfg", "--", "true").code)
		assert.Equal(t, 75, execute(t, url, "run", "-n", "cfg", "--", "true").code, "as flock, which excludes by default")
		assert.Equal(t, 0, execute(t, url, "run", "-n", "-s", "cfg", "--", "true").code)
		hasEntries(t, s, "cfg", 2)
	})
}

func TestOfNPermitsNRunTogether(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		slots := map[string]bool{}
		for range 2 {
			r := prepared(t, url, "run", "--permits", "2", "gpu", "--", "sh", "-c", "echo slot $FAIRLOCK_SLOT; read line")
			_, err := r.StdinPipe()
			require.NoError(t, err)
			r.start(t)
			r.out.WaitFor(t, `slot \d\n`)
			slots[r.out.String()] = true
		}

		assert.Equal(t, map[string]bool{"slot 0\n": true, "slot 1\n": true}, slots)
		got := execute(t, url, "run", "-n", "--permits", "2", "gpu", "--", "true")
		assert.Equal(t, 75, got.code)
		got = execute(t, url, "run", "-n", "--permits", "3", "gpu", "--", "true")
		assert.Equal(t, 64, got.code, "another limit")
	})
}

// A write can depend on the token and the key.
func TestTheTokenIsWhatTheServiceCanCheck(t *testing.T) {
	t.Parallel()
	script := "echo $FAIRLOCK_TOKEN $FAIRLOCK_KEY; read line"
	held := func(t *testing.T, url string) (token int64, key string) {
		t.Helper()
		s := openSession(t, url, "")
		first := begin(t, url, "run", "x/y", "--", "sh", "-c", "echo first; sleep 1000")
		first.out.WaitFor(t, "first")
		r := prepared(t, url, "run", "x/y", "--", "sh", "-c", script)
		_, err := r.StdinPipe()
		require.NoError(t, err)
		r.start(t)
		hasEntries(t, s, "x/y", 2) // it has waited, and the service has had other writes meanwhile
		_ = execute(t, url, "run", "other", "--", "true")
		require.NoError(t, first.Process.Signal(os.Interrupt))
		r.out.WaitFor(t, `\d+ .*\n`)
		word, key, _ := strings.Cut(strings.TrimSpace(r.out.String()), " ")
		token, err = strconv.ParseInt(word, 10, 64)
		require.NoError(t, err)
		return token, key
	}
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		cluster := etcdtest.New(t, nil)
		token, key := held(t, "etcd://"+strings.TrimPrefix(cluster.Endpoints()[0], "http://"))
		guarded := func(token int64) bool {
			resp, err := cluster.Client(t).Txn(hang.Context(t)).
				If(clientv3.Compare(clientv3.CreateRevision(key), "=", token)).
				Then(clientv3.OpPut("result", "mine")).Commit()
			require.NoError(t, err)
			return resp.Succeeded
		}
		assert.True(t, guarded(token))
		assert.False(t, guarded(token+1))
	})
	t.Run("zk", func(t *testing.T) {
		t.Parallel()
		ensemble := zktest.New(t, nil)
		token, key := held(t, "zk://"+ensemble.Endpoints()[0])
		_, stat, err := ensemble.Client(t).Get(key)
		require.NoError(t, err)
		assert.Equal(t, stat.Czxid, token)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		p, at := newPostgres(t, nil)
		require.NoError(t, p.Exec(hang.Context(t), "create table result (at text)"))
		token, key := held(t, at)
		guarded := func(token int64) bool {
			tag, err := p.Conn(t).Exec(hang.Context(t), `with mine as (select from fairlock.entry where place = $1 for key share) insert into result select 'mine' from mine`, token)
			require.NoError(t, err)
			return tag.RowsAffected() == 1
		}
		assert.True(t, strings.HasSuffix(key, fmt.Sprint(".", token)), key)
		assert.True(t, guarded(token))
		assert.False(t, guarded(token+1))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r, at := newRedis(t, nil)
		token, key := held(t, at)
		guarded := func(token int64) bool {
			const text = `if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return redis.call('INCR', KEYS[2]) end return 0`
			n, err := r.Do(hang.Context(t), "EVAL", text, "2", "{fairlock}:q:x/y", "{fairlock}:result", fmt.Sprint(token)).AsInt64()
			require.NoError(t, err)
			return n > 0
		}
		assert.True(t, strings.HasSuffix(key, fmt.Sprint(".", token)), key)
		assert.True(t, guarded(token))
		assert.False(t, guarded(token+1))
	})
}

func TestCompatEnvSetsTheVariablesOfOtherTools(t *testing.T) {
	withServices(t, func(t *testing.T, url string) {
		const show = `env | grep -E '^(ETCD_LOCK|CONSUL_LOCK)' | sort; echo $FAIRLOCK_KEY; echo $FAIRLOCK_TOKEN`
		run := func(args ...string) result {
			return execute(t, url, append(append([]string{"run"}, args...), "x", "--", "sh", "-c", show)...)
		}
		assert.Len(t, rows(run().stdout), 2)
		consul := rows(run("--compat-env", "consul").stdout)
		assert.Equal(t, []string{"CONSUL_LOCK_HELD=true"}, consul[:len(consul)-2])
		assert.Equal(t, 64, run("--compat-env", "nomad").code)

		got := run("--compat-env", "etcd,consul")

		if !strings.HasPrefix(url, "etcd") {
			assert.Equal(t, 64, got.code)
			assert.Regexp(t, "--compat-env etcd is for etcd, and this is (ZooKeeper|PostgreSQL|Redis) at ", got.stderr)
			return
		}
		require.Equal(t, 0, got.code, got.stderr)
		r := rows(got.stdout)
		require.Len(t, r, 5)
		assert.Equal(t, []string{"CONSUL_LOCK_HELD=true", "ETCD_LOCK_KEY=" + r[3], "ETCD_LOCK_REV=" + r[4]}, r[:3])
	})
}

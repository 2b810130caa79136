package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/zktest"
)

// serverEntry is an entry read from the server without the library.
type serverEntry struct {
	key, session string
	token        int64
}

func TestWhoAndDoctorAgreeWithTheServer(t *testing.T) {
	t.Parallel()
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		cluster := etcdtest.New(t, nil)
		client := cluster.Client(t)
		agree(t, "etcd://"+strings.TrimPrefix(cluster.Endpoints()[0], "http://"), func() (all []serverEntry) {
			got, err := client.Get(hang.Context(t), "fairlock/agreed/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
			require.NoError(t, err)
			for _, kv := range got.Kvs {
				all = append(all, serverEntry{key: string(kv.Key), session: fmt.Sprintf("%x", kv.Lease), token: kv.CreateRevision})
			}
			return all
		})
	})
	t.Run("zk", func(t *testing.T) {
		t.Parallel()
		ensemble := zktest.New(t, nil)
		conn := ensemble.Client(t)
		agree(t, "zk://"+ensemble.Endpoints()[0], func() (all []serverEntry) {
			names, _, err := conn.Children("/fairlock/agreed")
			require.NoError(t, err)
			sequence := func(name string) string { return name[max(len(name)-10, 0):] }
			slices.SortFunc(names, func(a, b string) int { return cmp.Compare(sequence(a), sequence(b)) })
			for _, name := range names {
				path := "/fairlock/agreed/" + name
				_, at, err := conn.Exists(path)
				require.NoError(t, err)
				all = append(all, serverEntry{key: path, session: fmt.Sprintf("0x%x", at.EphemeralOwner), token: at.Czxid})
			}
			return all
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		p, at := newPostgres(t, nil)
		conn := p.Conn(t)
		agree(t, at, func() (all []serverEntry) {
			rows, err := conn.Query(hang.Context(t), `select lpad(to_hex(session), 16, '0') || '.' || place, lpad(to_hex(session), 16, '0'), place
				from fairlock.entry where queue like '%qagreed' order by place`)
			require.NoError(t, err)
			all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e serverEntry, err error) {
				return e, row.Scan(&e.key, &e.session, &e.token)
			})
			require.NoError(t, err)
			return all
		})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r, at := newRedis(t, nil)
		agree(t, at, func() (all []serverEntry) {
			places, err := r.Do(hang.Context(t), "ZRANGE", "{fairlock}:q:agreed", "0", "-1").AsStrSlice()
			require.NoError(t, err)
			for _, place := range places {
				header, err := r.Do(hang.Context(t), "HGET", "{fairlock}:h:agreed", place).ToString()
				require.NoError(t, err)
				owner, _, _ := strings.Cut(header, " ")
				token, err := strconv.ParseInt(place, 10, 64)
				require.NoError(t, err)
				all = append(all, serverEntry{key: owner + "." + place, session: owner, token: token})
			}
			return all
		})
	})
}

// agree starts a writer and two readers behind it, and compares what the server has with
// what the program shows.
func agree(t *testing.T, url string, record func() []serverEntry) {
	t.Helper()
	s := openSession(t, url, "")
	var commands []*running
	for i, kind := range []string{"-x", "-s", "-s"} {
		commands = append(commands, begin(t, url, "run", "-q", kind, "agreed", "--", "sleep", "1000"))
		hasEntries(t, s, "agreed", i+1)
	}

	want := record()

	require.Len(t, want, 3)
	got := execute(t, url, "who", "-o", "json", "agreed")
	var l schema.Queue
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &l), got.stdout)
	var shown []serverEntry
	for i, e := range l.Entries {
		shown = append(shown, serverEntry{key: e.Key, session: e.Session, token: e.Token})
		assert.Equal(t, commands[i].Process.Pid, e.PID)
		assert.Equal(t, []string{schema.Holder, schema.Waiter, schema.Waiter}[i], e.State)
	}
	assert.Equal(t, want, shown)
	by, _ := examined(t, url)
	assert.Equal(t, "3 entries in 1 queue, all with a session and of this library", by["entries"][0].Text)
}

package etcd

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/itest/child"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// TestBoth runs the cases that ZooKeeper's tests run too.
func TestBoth(t *testing.T) {
	both.Run(t, func(t testing.TB) both.Service {
		cluster, client, root := shared.use(t)
		return bothService{cluster, client, root}
	})
}

// bothService is a root on the shared cluster.
type bothService struct {
	cluster *etcdtest.Cluster
	client  *clientv3.Client
	root    string
}

func (s bothService) Servers() []string { return s.cluster.Endpoints() }
func (s bothService) Root() string      { return s.root }

func (s bothService) Client(t testing.TB, ttl time.Duration) *recipetest.Client {
	return &newClient(t, s.root, ttl).open(t, s.client).Client
}

func (s bothService) Witness(t testing.TB) both.Witness {
	return bothWitness{watchPrefix(t, s.client, s.root+"/")}
}

func (s bothService) Key(testing.TB) string { return s.root + "-result" }

func (s bothService) Write(t testing.TB, h *session.Hold, key, value string) bool {
	ok, err := guarded(recipetest.Bounded(t), s.client, etcdbackend.Guard(h), key, value)
	require.NoError(t, err)
	return ok
}

func (s bothService) Written(t testing.TB, key string) (value string, times int) {
	r, err := s.client.Get(recipetest.Bounded(t), key)
	require.NoError(t, err)
	require.Len(t, r.Kvs, 1)
	return string(r.Kvs[0].Value), int(r.Kvs[0].Version)
}

func (s bothService) Beside(testing.TB) both.Beside {
	put := func(t testing.TB, queue, record, value string) {
		_, err := s.client.Put(recipetest.Bounded(t), s.root+"/%beside/"+queue+"/"+record, value)
		require.NoError(t, err)
	}
	return both.Beside{
		Put: put,
		Limits: []string{
			"-1", "0", "1e99", "", " 8", "08", "+8", "8\x00", "NaN", "99999999999999999999", "-9223372036854775808", strings.Repeat("9", 1<<20),
		},
		Limit:     func(t testing.TB, queue, limit string) { put(t, queue, "limit", limit) },
		Mend:      func(testing.TB, string, string) {}, // another limit does
		Slots:     []string{"-1", "+1", "01", "0x1", "", "99999999999999999999", "a/b", "\xff"},
		Numbers:   []string{"5 ", "5 x", "-5 x", " ", "5 " + strings.Repeat("k", mostBytes), "99999999999999999999 x"},
		Ledgers:   []string{`{"v":1,"entry":"x","place":9223372036854775807}`, `{"v":1,"entry":"","place":-1,"died":true}`},
		MostBytes: mostBytes,
	}
}

func (s bothService) Measured(t testing.TB) both.Measured {
	cluster := etcdtest.New(t, &etcdtest.Options{Processes: true})
	var tap tap
	client := clientWith(t, cluster, tap.on)
	c := newClient(t, s.root, 30*time.Second)
	c.opts.Session.Hooks.Joined = nil
	return both.Measured{
		Client: &c.open(t, client).Client,
		Entries: func() int {
			r, err := client.Get(recipetest.Bounded(t), s.root+"/lock", clientv3.WithPrefix(), clientv3.WithCountOnly())
			require.NoError(t, err)
			return int(r.Count)
		},
		Watches: func() int { return int(tap.watches.Load()) },
	}
}

func (s bothService) Lines(t testing.TB) map[string]both.Line {
	line := both.Line{
		Kinds: len(strangerKeys(0)),
		Strangers: func(t testing.TB, name string, from, to int) both.Strangers {
			return strangersIn(t, s.client, s.root+"/"+name+"/", from, to)
		},
	}
	for i := range line.Clients {
		line.Clients[i] = s.Client(t, recipetest.CalmTTL)
	}
	return map[string]both.Line{"etcd": line}
}

// bothWitness has tokens identify entries: the keys of a session are used again.
type bothWitness struct{ w *witness }

func (w bothWitness) Entry(u child.Turn) string { return strconv.FormatInt(u.Token, 10) }

func (w bothWitness) Made(t testing.TB, n int) []string {
	t.Helper()
	return texts(w.w.sees(t, n))
}

func (w bothWitness) Ended(t testing.TB, entry string) driver.Instant {
	t.Helper()
	token, err := strconv.ParseInt(entry, 10, 64)
	require.NoError(t, err)
	return w.w.seesEnd(t, session.Token(token))
}

func (w bothWitness) NothingLeft(t testing.TB) []string {
	t.Helper()
	w.w.seesNothingLeft(t)
	w.w.mu.Lock()
	defer w.w.mu.Unlock()
	return texts(w.w.ended)
}

func texts(tokens []int64) (all []string) {
	for _, token := range tokens {
		all = append(all, strconv.FormatInt(token, 10))
	}
	return all
}

package etcd

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// TestBoth runs the cases that ZooKeeper's tests run too.
func TestBoth(t *testing.T) {
	both.Run(t, "etcd", func(t testing.TB) both.Service {
		cluster, client, root := shared(t)
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

func (s bothService) Monitor(t testing.TB) both.Monitor {
	return watchPrefix(t, s.client, s.root+"/")
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

func (s bothService) ForeignRecords(testing.TB) both.ForeignRecords {
	put := func(t testing.TB, queue, record, value string) {
		_, err := s.client.Put(recipetest.Bounded(t), s.root+"/%v2/"+queue+"/"+record, value)
		require.NoError(t, err)
	}
	return both.ForeignRecords{
		Put: put,
		Detail: func(t testing.TB, candidate driver.Ref, value string) {
			put(t, candidate.Queue, "%detail/"+candidate.Key[strings.LastIndexByte(candidate.Key, '/')+1:], value)
		},
		Limits: []string{
			"plenty", "-1", "0", "1e99", "", " 8", "08", "+8", "8\x00", "NaN", "99999999999999999999", "-9223372036854775808", strings.Repeat("9", 1<<20),
		},
		Limit:      func(t testing.TB, queue, limit string) { put(t, queue, "limit", limit) },
		Slots:      []string{"-1", "+1", "01", "0x1", "", "99999999999999999999", "a/b", "\xff"},
		SlotValues: []string{"5 ", "5 x", "-5 x", " ", "5 " + strings.Repeat("k", mostBytes), "99999999999999999999 x"},
		Ledgers:    []string{`{"v":1,"entry":"x","place":9223372036854775807}`, `{"v":1,"entry":"","place":-1,"died":true}`},
		MostBytes:  mostBytes,
	}
}

func (s bothService) Measured(t testing.TB) both.Measured {
	cluster := etcdtest.New(t, &etcdtest.Options{Processes: true})
	var meter meter
	client := clientWith(t, cluster, meter.on)
	c := newClient(t, s.root, 30*time.Second)
	h := &c.opts.Session.Hooks // what those for requests would remember is not the client's
	*h = session.Hooks{SessionOpened: h.SessionOpened, SessionLost: h.SessionLost}
	count := func(prefix string) int {
		ctx, cancel := context.WithTimeout(t.Context(), recipetest.Patience)
		defer cancel() // at once: the case that measures the heap asks often
		r, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		require.NoError(t, err)
		return int(r.Count)
	}
	return both.Measured{
		Client:  &c.open(t, client).Client,
		Entries: func() int { return count(s.root + "/lock") },
		Records: func() int { return count(s.root + "/%v2/") },
		Watches: func() int { return int(meter.watches.Load()) },
	}
}

func (s bothService) Layouts(t testing.TB) map[string]both.Layout {
	layout := both.Layout{
		Kinds: len(foreignNames("")),
		Foreign: func(t testing.TB, name string, from, to int) both.ForeignEntries {
			return putForeign(t, s.client, s.root+"/"+name+"/", from, to)
		},
	}
	for i := range layout.Clients {
		layout.Clients[i] = s.Client(t, recipetest.EventTTL)
	}
	return map[string]both.Layout{"etcd": layout}
}

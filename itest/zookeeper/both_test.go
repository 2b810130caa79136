package zookeeper

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// TestBoth runs the cases that etcd's tests run too.
func TestBoth(t *testing.T) {
	both.Run(t, "zk", func(t testing.TB) both.Service {
		e, root := shared(t)
		return bothService{e, e.Client(t), root}
	})
}

// bothService is a root on the shared server.
type bothService struct {
	ensemble *zktest.Ensemble
	conn     *zk.Conn
	root     string
}

func (s bothService) Servers() []string { return s.ensemble.Endpoints() }
func (s bothService) Root() string      { return s.root }

func (s bothService) Client(t testing.TB, ttl time.Duration) *recipetest.Client {
	return &newClient(t, s.root, ttl).open(t, s.Servers()...).Client
}

func (s bothService) Monitor(t testing.TB) both.Monitor {
	return monitorOf(t, s.ensemble, s.root)
}

func (s bothService) Key(t testing.TB) string {
	key, err := s.conn.Create(s.root+"-result", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	return key
}

func (s bothService) Write(t testing.TB, h *session.Hold, key, value string) bool {
	ok, err := guarded(s.conn, zkbackend.Guard(h), key, value)
	require.NoError(t, err)
	return ok
}

func (s bothService) Written(t testing.TB, key string) (value string, times int) {
	data, stat, err := s.conn.Get(key)
	require.NoError(t, err)
	return string(data), int(stat.Version)
}

func (s bothService) ForeignRecords(testing.TB) both.ForeignRecords {
	m := &foreignClient{conn: s.conn, root: s.root}
	return both.ForeignRecords{
		Put:        func(t testing.TB, queue, record, value string) { m.record(t, queue, record, value) },
		Detail:     m.detail,
		Limits:     []string{"plenty", "-1", "0", "1e99", "", " 8", "08", "+8", "8\x00", "NaN", "99999999999999999999", strings.Repeat("9", 100_000)},
		Limit:      func(t testing.TB, queue, limit string) { m.record(t, queue, "limit", limit) },
		Slots:      []string{"-1", "+1", "01", "0x1", "99999999999999999999", "☃"},
		SlotValues: []string{"0123456789abcdef-lock-0000000000"},
		Ledgers:    []string{"x died", " ", " clean", "0123456789abcdef died"},
		Taken:      true,
		MostBytes:  mostBytes,
	}
}

func (s bothService) Measured(t testing.TB) both.Measured {
	c := newClient(t, s.root, 30*time.Second)
	h := &c.opts.Session.Hooks // what those for requests would remember is not the client's
	*h = session.Hooks{SessionOpened: h.SessionOpened, SessionLost: h.SessionLost}
	return both.Measured{
		Client:  &c.open(t, s.Servers()...).Client,
		Entries: func() int { return entries(t, s.conn, s.root) },
		Records: func() int { return records(t, s.conn, s.root) },
		Watches: func() int { return watches(t, s.ensemble) },

		Held:     func(n, added int) { assert.Equal(t, n, added, "watches at the server") },
		Released: func(added int) { assert.LessOrEqual(t, added, 0, "watches at the server") },
	}
}

func (s bothService) Layouts(t testing.TB) map[string]both.Layout {
	entries, _ := foreignNames()
	all := map[string]both.Layout{}
	for _, layout := range []zkbackend.Layout{zkbackend.LayoutCurator, zkbackend.LayoutKazoo} {
		root := s.root + "-" + layout.String()
		part := both.Layout{
			Kinds: len(entries),
			Foreign: func(t testing.TB, name string, from, to int) both.ForeignEntries {
				return putForeign(t, s.ensemble, root+"/"+name, from, to)
			},
		}
		for i := range part.Clients {
			c := newClient(t, root, recipetest.EventTTL)
			c.opts.Layout = layout
			part.Clients[i] = &c.open(t, s.Servers()...).Client
		}
		all[layout.String()] = part
	}
	return all
}

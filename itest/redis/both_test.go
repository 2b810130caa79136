package redis

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session"
)

// TestBoth runs the cases with client processes that etcd's and ZooKeeper's tests run too.
func TestBoth(t *testing.T) {
	both.RunProcesses(t, "redis", func(t testing.TB) both.Processes {
		server, _ := calm.Use(t)
		return bothService{newStore(t, oneOption(server), 1, 2*recipetest.EventTTL), server}
	})
}

// bothService is a root on the calm server.
type bothService struct {
	store
	server *redistest.Server
}

func (s bothService) Servers() []string { return []string{s.server.Addr()} }
func (s bothService) Root() string      { return s.opts.Root }

func (s bothService) Client(t testing.TB, ttl time.Duration) *recipetest.Client {
	return s.client(t, ttl)
}

// Key returns a key in the slot of the root.
func (s bothService) Key(testing.TB) string { return "{" + s.opts.Root + "} result" }

func (s bothService) Write(t testing.TB, h *session.Hold, key, value string) bool {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: s.Servers(), DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	ok, err := guardOf(s.opts.Root, h).write(recipetest.Bounded(t), client, key, value)
	require.NoError(t, err)
	return ok
}

func (s bothService) Written(t testing.TB, key string) (value string, times int) {
	all, err := s.server.Do(hang.Context(t), "HMGET", key, "value", "times").ToArray()
	require.NoError(t, err)
	value, _ = all[0].ToString()
	n, _ := all[1].AsInt64()
	return value, int(n)
}

// Monitor reads what the server reports of the commands that it runs, in their order. It identifies
// entries by their places, which are the tokens.
func (s bothService) Monitor(t testing.TB) both.Monitor {
	w := &both.History[int64]{
		Of: func(u worker.Turn) int64 { return u.Token },
		Left: func(t testing.TB) {
			left := slices.DeleteFunc(s.keys(t, s.server), func(key string) bool {
				return key == "meta" || key == "ses" || strings.HasPrefix(key, "s:") // of sessions that are open
			})
			assert.Empty(t, left, "keys of queues that are left")
		},
	}
	conn, err := (&net.Dialer{}).DialContext(recipetest.Bounded(t), "tcp", s.server.Addr())
	require.NoError(t, err)
	_, err = fmt.Fprint(conn, "MONITOR\r\n")
	require.NoError(t, err)
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	require.True(t, lines.Scan(), "the server is monitored")
	change := regexp.MustCompile(`"(ZADD|ZREM)" "` + regexp.QuoteMeta("{"+s.opts.Root+"}:q:") + `[^"]*" "(\d+)"`)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for lines.Scan() {
			m := change.FindStringSubmatch(lines.Text())
			if m == nil {
				continue
			}
			place, err := strconv.ParseInt(m[2], 10, 64)
			switch {
			case err != nil:
				w.Failed(err)
			case m[1] == "ZADD":
				w.Made(place)
			default:
				w.Ended(place)
			}
		}
		if ctx.Err() == nil {
			w.Failed(fmt.Errorf("the server is not monitored any more: %w", lines.Err()))
		}
	}()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, conn.Close())
		<-done
	})
	return w
}

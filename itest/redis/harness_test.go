package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
	"github.com/fairlock/fairlock/testnet"
)

// setup is where the clients of a suite connect.
type setup struct {
	option  rueidis.ClientOption // as a client has it whose network is healthy
	servers []string             // the addresses that it may dial
	nodes   int
	master  func() *redistest.Server // the one that has the root of a case now
	publish string                   // the command that the scripts use
}

// oneServer is a server alone.
func oneServer(t *testing.T, opts *redistest.Options) setup {
	t.Helper()
	s := redistest.New(t, opts)
	return setup{
		option: rueidis.ClientOption{InitAddress: []string{s.Addr()}}, servers: []string{s.Addr()}, nodes: 1,
		master: func() *redistest.Server { return s }, publish: "PUBLISH",
	}
}

// withSentinels is a master with two replicas, one of which must have each renewal.
func withSentinels(t *testing.T) setup {
	t.Helper()
	all := redistest.NewSentinels(t, nil)
	return setup{
		option: rueidis.ClientOption{
			InitAddress: all.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterName},
		},
		servers: append(all.Addrs(), addrs(all.Servers())...), nodes: 3, publish: "PUBLISH",
		master: func() *redistest.Server {
			m, err := all.Master(hang.Context(t))
			require.NoError(t, err)
			return m
		},
	}
}

// inCluster is a cluster of three shards. Each client knows one node, which has the root or not.
func inCluster(t *testing.T) setup {
	t.Helper()
	all := redistest.NewCluster(t, nil)
	return setup{
		option: rueidis.ClientOption{InitAddress: all.Addrs()[:1]}, servers: all.Addrs(), nodes: 1, publish: "SPUBLISH",
		master: func() *redistest.Server { return nil },
	}
}

func addrs(all []*redistest.Server) (texts []string) {
	for _, s := range all {
		texts = append(texts, s.Addr())
	}
	return texts
}

// harness runs the suites on a server. Every case has a root of its own, and every client its own proxy.
func (s setup) harness(t *testing.T) drivertest.Harness {
	t.Helper()
	run := fmt.Sprintf("%p", t)
	var cases atomic.Int64
	return drivertest.Harness{
		TTL:       2 * time.Second,
		Calm:      recipetest.EventTTL,
		Parallel:  true,
		Prompt:    500 * time.Millisecond,
		First:     true,
		Observed:  true,
		NoForeign: true,
		Spurious:  true,
		Keeps:     driver.Keeps{Exclusion: driver.Always, Order: driver.UntilDataLoss, Tokens: driver.UntilDataLoss},
		Leaks: []goleak.Option{
			goleak.IgnoreAnyFunction("github.com/fairlock/fairlock/testnet.(*pipe).read"),
			goleak.IgnoreAnyFunction("github.com/fairlock/fairlock/testnet.(*pipe).write"),
			goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe).Close"),
		},
		Service: func(t *testing.T) drivertest.Service {
			return newService(t, s, fmt.Sprint("case", cases.Add(1), "-", run), 2*recipetest.EventTTL)
		},
	}
}

// service is the part of a server that one case sees.
type service struct {
	setup
	root   string
	maxTTL time.Duration
}

func newService(t *testing.T, s setup, root string, maxTTL time.Duration) *service {
	t.Helper()
	v := &service{setup: s, root: root, maxTTL: maxTTL}
	require.NoError(t, redisbackend.Init(hang.Context(t), s.option, v.options()))
	return v
}

func (s *service) options() *redisbackend.Options {
	return &redisbackend.Options{Root: s.root, MaxTTL: s.maxTTL, Nodes: s.nodes}
}

// notify begins the scripts of eval: a function that publishes a notice about an entry, and one that deletes one.
const notify = `
	local function tell(q, place, what)
		local e = redis.call('HMGET', P .. 'h:' .. q, place, place .. 'w')
		local owner, marks = string.match(e[1], '^(%S+) .* (%d+) %d+$')
		what = what .. ':' .. marks .. ':' .. place .. ':' .. q
		redis.call('PUBLISH', P .. 'c::' .. q, what)
		redis.call('PUBLISH', P .. 'c:' .. owner, what)
		for session in string.gmatch(e[2] or '', '%S+') do redis.call('PUBLISH', P .. 'c:' .. session, what) end
	end
	local function delete(q, place)
		tell(q, place, 'g0')
		redis.call('HDEL', P .. 'h:' .. q, place, place .. 'd', place .. 'x', place .. 'w')
		local n = redis.call('ZREM', P .. 'q:' .. q, place)
		if redis.call('EXISTS', P .. 'q:' .. q) == 0 then redis.call('ZREM', P .. 'names', q) end
		return n
	end
`

// eval runs a script on the server that has the root. It begins with what the scripts here need.
func (s *service) eval(t *testing.T, text string, args ...string) string {
	t.Helper()
	text = "local P = KEYS[1]\n" + strings.ReplaceAll(notify+text, "'PUBLISH'", "'"+s.publish+"'")
	var result rueidis.RedisResult
	if m := s.master(); m != nil {
		result = m.Do(hang.Context(t), append([]string{"EVAL", text, "1", "{" + s.root + "}:"}, args...)...)
	} else {
		admin, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: s.servers, DisableCache: true})
		require.NoError(t, err)
		defer admin.Close()
		result = admin.Do(hang.Context(t), admin.B().Eval().Script(text).Numkeys(1).Key("{"+s.root+"}:").Arg(args...).Build())
	}
	m, err := result.ToAny()
	require.NoError(t, err)
	return fmt.Sprint(m)
}

// Expire does what a client does that ends a session.
func (s *service) Expire(t *testing.T, session string) {
	require.Equal(t, "1", s.eval(t, `
		local n = redis.call('ZREM', P .. 'ses', ARGV[1])
		for _, owned in ipairs(redis.call('HKEYS', P .. 's:' .. ARGV[1])) do
			local place, q = string.match(owned, '^e(%d+):(.*)$')
			if place then delete(q, place) end
			local length, rest = string.match(owned, '^r(%d+):(.*)$')
			if length then
				local record, q = string.sub(rest, 1, length), string.sub(rest, length + 2)
				redis.call('HDEL', P .. 'r:' .. q, record)
				redis.call('PUBLISH', P .. 'c::' .. q, 'r' .. record)
			end
		end
		redis.call('DEL', P .. 's:' .. ARGV[1])
		return n`, session), "session %s", session)
}

func (s *service) Delete(t *testing.T, ref driver.Ref) {
	require.Equal(t, "1", s.eval(t, `
		local q, place = ARGV[1], ARGV[2]
		local header = redis.call('HGET', P .. 'h:' .. q, place)
		redis.call('HDEL', P .. 's:' .. string.match(header, '^%S+'), 'e' .. place .. ':' .. q)
		return delete(q, place)`, ref.Queue, strconv.FormatInt(ref.Place, 10)), "entry %v", ref)
}

func (s *service) PutForeign(t *testing.T, _ string, _ bool) driver.Ref {
	require.Fail(t, "only this library makes entries")
	return driver.Ref{}
}

func (s *service) Overwrite(t *testing.T, ref driver.Ref, value []byte) {
	args := []string{ref.Queue, strconv.FormatInt(ref.Place, 10)}
	if value != nil {
		args = append(args, string(value))
	}
	s.eval(t, `
		local q, place = ARGV[1], ARGV[2]
		if ARGV[3] then redis.call('HSET', P .. 'h:' .. q, place .. 'd', ARGV[3]) end
		local rest, marks, changes = string.match(redis.call('HGET', P .. 'h:' .. q, place), '^(.*) (%d+) (%d+)$')
		redis.call('HSET', P .. 'h:' .. q, place, rest .. ' ' .. marks .. ' ' .. (changes + 1))
		tell(q, place, 'c' .. (changes + 1))
		return 1`, args...)
}

func (s *service) Count(t *testing.T, queue string) (n int) {
	_, err := fmt.Sscan(s.eval(t, "return redis.call('ZCARD', P .. 'q:' .. ARGV[1])", queue), &n)
	require.NoError(t, err)
	return n
}

func (s *service) Client(t *testing.T) drivertest.Client {
	c := &both.Client{}
	proxies := map[string]*testnet.Proxy{}
	for _, addr := range s.servers {
		p, err := testnet.New(addr, nil)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, p.Close()) })
		c.Proxies = append(c.Proxies, p)
		proxies[addr] = p
	}
	option := s.option
	option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		p := proxies[addr]
		if p == nil {
			return nil, fmt.Errorf("no server has the address %s", addr)
		}
		return d.DialContext(ctx, "tcp", p.Addr())
	}
	b, err := redisbackend.NewBackend(option, s.options())
	require.NoError(t, err)
	redisbackend.Intercept(door.Key{}, b, c.Intercept)
	c.Service = b
	t.Cleanup(c.Deliver)
	return c
}

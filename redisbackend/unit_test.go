package redisbackend

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

func TestOptionsAreCheckedBeforeAnythingIsSent(t *testing.T) {
	client := rueidis.ClientOption{InitAddress: []string{"localhost:1"}}
	for name, o := range map[string]Options{
		"long root":       {Root: strings.Repeat("r", maxRoot+1)},
		"control root":    {Root: "a\x01q"},
		"root of a slot":  {Root: "a}b"},
		"root with brace": {Root: "{a"},
		"root":            {Root: "\xff"},
		"root of no path": {Root: "a//b"},
		"short MaxTTL":    {MaxTTL: minTTL - 1},
		"negative MaxTTL": {MaxTTL: -time.Hour},
		"negative Nodes":  {Nodes: -1},
	} {
		_, err := NewBackend(client, &o)
		require.ErrorIs(t, err, session.ErrInvalidOptions, name)
		_, err = DialBackend("redis://localhost:1", &o)
		require.ErrorIs(t, err, session.ErrInvalidOptions, name)
		_, err = Open(t.Context(), client, &o)
		require.ErrorIs(t, err, session.ErrInvalidOptions, name)
		require.ErrorIs(t, Init(t.Context(), client, &o), session.ErrInvalidOptions, name)
	}
	_, err := NewBackend(rueidis.ClientOption{}, nil)
	require.ErrorIs(t, err, session.ErrInvalidOptions)
	for _, url := range []string{"", "localhost:1", "http://localhost:1", "redis://localhost:1/x"} {
		_, err := DialBackend(url, nil)
		require.ErrorIs(t, err, session.ErrInvalidOptions, url)
		_, err = Dial(t.Context(), url, nil)
		require.ErrorIs(t, err, session.ErrInvalidOptions, url)
		require.ErrorIs(t, InitURL(t.Context(), url, nil), session.ErrInvalidOptions, url)
	}
	for _, o := range []*Options{nil, {}, {Root: strings.Repeat("r", maxRoot), MaxTTL: minTTL, Nodes: 5}, {Root: "a/b"}} {
		b, err := NewBackend(client, o)
		require.NoError(t, err)
		require.NoError(t, b.CheckName("any\x00thing"))
		require.NoError(t, b.Close())
	}
}

func TestValkeyIsRedis(t *testing.T) {
	for url, want := range map[string][]string{
		"redis://u:p@h:1/3":            {"h:1"},
		"valkey://u:p@h:1/3":           {"h:1"},
		"valkeys://u:p@h:1/3?addr=g:2": {"h:1", "g:2"},
		"rediss://u:p@h:1/3":           {"h:1"},
	} {
		o, err := parse(url)
		require.NoError(t, err, url)
		assert.Equal(t, want, o.InitAddress, url)
		assert.Equal(t, []string{"u", "p"}, []string{o.Username, o.Password}, url)
		assert.Equal(t, 3, o.SelectDB, url)
		assert.Equal(t, strings.Contains(url, "ss://") || strings.Contains(url, "ys://"), o.TLSConfig != nil, url)
	}
	o, err := parse("valkey://h:1/0?master_set=main")
	require.NoError(t, err)
	assert.Equal(t, "main", o.Sentinel.MasterSet)
}

// The majority of a renewal and that of any claim have a server in common.
func TestAMajorityHasAnAcknowledgement(t *testing.T) {
	for nodes, acks := range map[int]int{1: 0, 2: 1, 3: 1, 4: 2, 5: 2} {
		o := Options{Nodes: nodes}
		assert.Equal(t, acks, o.acks(), "%d", nodes)
		assert.Greater(t, 2*(o.acks()+1), nodes)
		assert.Equal(t, nodes+1, o.acks()+1+o.claimAcks()+1, "a renewal and a claim have one server in common, and no more are needed")
	}
	o, err := (*Options)(nil).checked()
	require.NoError(t, err)
	assert.Equal(t, Options{Root: "fairlock", MaxTTL: session.DefaultTTL, Nodes: 1}, o)
}

func TestKeepsFollowTheOptions(t *testing.T) {
	assert.Equal(t, driver.Keeps{Exclusion: driver.Always, Order: driver.UntilDataLoss, Tokens: driver.UntilDataLoss}, (&Options{}).keeps())
	assert.Equal(t, driver.Keeps{Exclusion: driver.UntilSplit, Order: driver.UntilDataLoss, Tokens: driver.UntilSplit}, (&Options{AcceptWeaker: true}).keeps())
}

func TestInfo(t *testing.T) {
	b, err := NewBackend(rueidis.ClientOption{InitAddress: []string{"localhost:1"}}, &Options{MaxTTL: time.Hour})
	require.NoError(t, err)
	i := b.Info()
	assert.Equal(t, time.Hour, i.MaxTTL)
	assert.Equal(t, time.Second, i.MinTTL)
	assert.Equal(t, 100*time.Millisecond, i.Margin(minTTL))
	assert.Equal(t, 6*time.Second, i.Margin(time.Minute))
	assert.Equal(t, 64, i.MaxJoin)
}

// A server keeps a lock only with these settings, and all programs of a root have the same ones.
func TestWhatKeepsNoLockIsRefused(t *testing.T) {
	whole := examination{layout: layoutVersion, maxTTL: time.Minute, nodes: 3, policy: "noeviction", replicas: 2, version: "7.0.15"}
	for name, c := range map[string]struct {
		change  func(e *examination)
		refused string // "" for what is used
		accepts bool   // with AcceptWeaker
	}{
		"whole":           {func(*examination) {}, "", true},
		"new root":        {func(e *examination) { e.layout, e.maxTTL, e.nodes = "", 0, 0 }, "", true},
		"volatile policy": {func(e *examination) { e.policy = "volatile-lru" }, "", true},
		"fewer replicas":  {func(e *examination) { e.replicas = 0 }, "", true},
		"6.2":             {func(e *examination) { e.version = "6.2.0" }, "", true},
		"10.1":            {func(e *examination) { e.version = "10.1.0" }, "", true},
		"no version":      {func(e *examination) { e.version = "" }, "", true},
		"6.0":             {func(e *examination) { e.version = "6.0.16" }, "Redis 6.0.16", false},
		"5":               {func(e *examination) { e.version = "5.0.7" }, "Redis 5.0.7", false},
		"layout":          {func(e *examination) { e.layout = "3" }, "layout 3", false},
		"MaxTTL":          {func(e *examination) { e.maxTTL = time.Hour }, "greatest TTL 1h0m0s", false},
		"Nodes":           {func(e *examination) { e.nodes = 5 }, "counts 5 nodes", false},
		"eviction":        {func(e *examination) { e.policy = "allkeys-lru" }, "may evict", true},
		"replicas":        {func(e *examination) { e.replicas = 3 }, "has 3 replicas", true},
	} {
		for _, accept := range []bool{false, true} {
			b, err := NewBackend(rueidis.ClientOption{InitAddress: []string{"localhost:1"}}, &Options{MaxTTL: time.Minute, Nodes: 3, AcceptWeaker: accept})
			require.NoError(t, err)
			e := whole
			c.change(&e)
			err = b.(*backend).check(&e, false) //nolint:forcetypeassert // it is
			if c.refused == "" || accept && c.accepts {
				require.NoError(t, err, name)
				continue
			}
			require.ErrorIs(t, err, driver.ErrRefused, name)
			require.ErrorContains(t, err, c.refused, name)
		}
	}
}

func TestAJoinIsCheckedBeforeAnythingIsSent(t *testing.T) {
	s := &redisSession{}
	many := make([]driver.JoinRequest, maxJoin+1)
	for i := range many {
		many[i].Queue = strings.Repeat("q", i)
	}
	for name, reqs := range map[string][]driver.JoinRequest{
		"many": many, "data": {{Data: make([]byte, maxData+1)}}, "twice": {{Queue: "a"}, {Queue: "b"}, {Queue: "a"}},
	} {
		_, err := s.joinArgs(reqs)
		require.ErrorIs(t, err, driver.ErrRefused, name)
	}
	_, err := s.joinArgs(many[:maxJoin])
	require.NoError(t, err)
	s.cfg.Observer = true
	_, err = s.joinArgs(many[:1])
	require.ErrorIs(t, err, driver.ErrRefused)
}

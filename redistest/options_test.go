package redistest_test

import (
	"cmp"
	"crypto/tls"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/testnet"
)

// connects returns how a command fails that a user sends through the server's port.
func connects(t *testing.T, s *redistest.Server, user, password string, secure *tls.Config, command ...string) error {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr()}, Username: user, Password: password, TLSConfig: secure,
		ForceSingleClient: true, DisableCache: true, DisableRetry: true,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Do(hang.Context(t), client.B().Arbitrary(command...).Build()).Error()
}

func TestSettingsAreThoseOfTheOptions(t *testing.T) {
	s := redistest.New(t, &redistest.Options{Config: []string{"maxmemory 3mb", "maxmemory-policy allkeys-lru"}})
	assert.Equal(t, "3145728", field(t, s, "memory", "maxmemory"))
	assert.Equal(t, "allkeys-lru", field(t, s, "memory", "maxmemory_policy"))
	full := redistest.New(t, &redistest.Options{Config: []string{"maxmemory 1"}})
	require.ErrorContains(t, full.Do(hang.Context(t), "SET", "a", "b").Error(), "OOM")

	for _, opts := range []*redistest.Options{
		{Config: []string{""}},
		{Config: []string{"a\nb"}},
		{StartTimeout: -1},
		{Persistence: 3},
		{Dir: "nowhere"},
		{Program: "nowhere"},
	} {
		_, err := redistest.Start(t.Context(), opts)
		require.ErrorContains(t, err, "redistest: ", "%+v", opts)
	}
	_, err := redistest.Start(t.Context(), &redistest.Options{Config: []string{"no-such-setting x"}})
	require.ErrorContains(t, err, "no-such-setting")
	_, err = s.Replica(t.Context(), &redistest.ReplicaOptions{Config: []string{""}})
	require.ErrorContains(t, err, "want one line")
	for _, opts := range []*redistest.SentinelOptions{{Replicas: -1}, {Sentinels: 10}, {DownAfter: -1}, {Server: &redistest.Options{Dir: "."}}} {
		_, err := redistest.StartSentinels(t.Context(), opts)
		require.ErrorContains(t, err, "redistest: options", "%+v", opts)
	}
	for _, opts := range []*redistest.ClusterOptions{{Shards: -1}, {Replicas: 4}, {NodeTimeout: -1}, {Server: &redistest.Options{Dir: "."}}} {
		_, err := redistest.StartCluster(t.Context(), opts)
		require.ErrorContains(t, err, "redistest: options", "%+v", opts)
	}
}

func TestUsersMayDoWhatTheirLinesSay(t *testing.T) {
	s := redistest.New(t, &redistest.Options{Config: []string{"requirepass for-all", "user app on >secret ~app:* &app:* +get +set"}})
	require.ErrorContains(t, connects(t, s, "", "", nil, "GET", "a"), "NOAUTH")
	require.NoError(t, connects(t, s, "", "for-all", nil, "SET", "a", "b"))
	require.NoError(t, connects(t, s, "app", "secret", nil, "SET", "app:1", "x"))
	require.ErrorContains(t, connects(t, s, "app", "secret", nil, "SET", "other", "x"), "NOPERM")
	require.ErrorContains(t, connects(t, s, "app", "secret", nil, "FLUSHALL"), "NOPERM")
	require.ErrorContains(t, connects(t, s, "app", "wrong", nil, "GET", "a"), "WRONGPASS")
	do(t, s, "ACL", "SETUSER", "app", "-set")
	require.ErrorContains(t, connects(t, s, "app", "secret", nil, "SET", "app:1", "x"), "NOPERM")

	assert.Equal(t, "redis://"+s.Addr(), s.URL())
	assert.Equal(t, "redis://app:a%40b@"+s.Addr(), s.URLAs("app", "a@b"))
	assert.Equal(t, "redis://:a@"+s.Addr(), s.URLAs("", "a"))
}

func TestOlderProtocol(t *testing.T) {
	s := redistest.New(t, &redistest.Options{RESP2: true})
	require.ErrorContains(t, s.Do(hang.Context(t), "HELLO", "3").Error(), "unknown command")
	require.NoError(t, connects(t, s, "", "", nil, "SET", "a", "b"))
	replica(t, s)
}

func TestTLSIsVerified(t *testing.T) {
	s := redistest.New(t, &redistest.Options{TLS: true})
	trusted, err := s.CA().Client("app")
	require.NoError(t, err)
	require.NoError(t, connects(t, s, "", "", trusted, "SET", "a", "b"))
	require.Error(t, connects(t, s, "", "", nil, "SET", "a", "b"))
	anonymous := trusted.Clone()
	anonymous.Certificates = nil
	require.NoError(t, connects(t, s, "", "", anonymous, "SET", "a", "b"))
	assert.Equal(t, "rediss://"+s.Addr(), s.URL())
	assert.True(t, exists(t, replica(t, s), "a"), "replication uses TLS")

	strict := redistest.New(t, &redistest.Options{TLS: true, Config: []string{"tls-auth-clients yes"}})
	trusted, err = strict.CA().Client("app")
	require.NoError(t, err)
	require.NoError(t, connects(t, strict, "", "", trusted, "SET", "a", "b"))
	anonymous = trusted.Clone()
	anonymous.Certificates = nil
	require.Error(t, connects(t, strict, "", "", anonymous, "SET", "a", "b"))

	expired := redistest.New(t, &redistest.Options{TLS: true, ServerCA: (*testnet.CA).Expired})
	trusted, err = expired.CA().Client("app")
	require.NoError(t, err)
	require.ErrorContains(t, connects(t, expired, "", "", trusted, "SET", "a", "b"), "expired")
	assert.Nil(t, redistest.New(t, nil).CA())
}

func TestClockIsShifted(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // Options.Clock needs Linux
	}
	s := redistest.New(t, &redistest.Options{Clock: true})
	// ahead returns how far the server's clock is ahead, less the time that the question took.
	ahead := func(command ...string) (least, most time.Duration) {
		t.Helper()
		before := time.Now()
		parts, err := s.Do(hang.Context(t), command...).AsIntSlice()
		require.NoError(t, err)
		at := time.Unix(parts[0], parts[1]*1000)
		return time.Until(at), at.Add(time.Microsecond).Sub(before)
	}
	for _, shift := range []time.Duration{0, time.Hour, 90*time.Minute + 999999999, -10 * time.Second, -1, 1500 * time.Millisecond, 0} {
		require.NoError(t, s.SetClock(shift))
		for _, command := range [][]string{{"TIME"}, {"EVAL", "local at = redis.call('TIME') return {tonumber(at[1]), tonumber(at[2])}", "0"}} {
			least, most := ahead(command...)
			assert.LessOrEqual(t, least, shift)
			assert.GreaterOrEqual(t, most, shift)
		}
	}
	do(t, s, "SET", "short", "1", "EX", "1800")
	assert.True(t, exists(t, s, "short"))
	require.NoError(t, s.SetClock(time.Hour))
	assert.False(t, exists(t, s, "short"), "it ends by the wall clock")
	require.NoError(t, s.Restart(hang.Context(t)))
	least, _ := ahead("TIME")
	assert.Greater(t, least, 59*time.Minute)

	require.ErrorContains(t, redistest.New(t, nil).SetClock(time.Hour), "Options.Clock")
}

func TestDataIsInTheGivenDirectory(t *testing.T) {
	dir := t.TempDir()
	s := redistest.New(t, &redistest.Options{Dir: dir, Persistence: redistest.Log})
	assert.DirExists(t, dir+"/data/appendonlydir")
	_, err := redistest.Start(t.Context(), &redistest.Options{Dir: dir})
	require.ErrorContains(t, err, "not empty")
	require.NoError(t, s.Close())
	assert.DirExists(t, dir+"/data/appendonlydir")
}

// TestValkeyWorks: "make valkey" unpacks it.
func TestValkeyWorks(t *testing.T) {
	tier.Seldom(t)
	opts := redistest.Options{Program: cmp.Or(os.Getenv("FAIRLOCK_VALKEY"), "../bin/valkey/usr/bin/valkey-server"), Clock: runtime.GOOS == "linux", Persistence: redistest.Log}
	s := redistest.New(t, &opts)
	assert.NotEmpty(t, field(t, s, "server", "valkey_version"))
	r := replica(t, s)
	require.NoError(t, r.CutOff())
	do(t, s, "SET", "lost", "1")
	require.NoError(t, s.Pause())
	require.NoError(t, r.Promote(hang.Context(t)))
	assert.False(t, exists(t, r, "lost"))
	require.NoError(t, s.Resume())
	require.NoError(t, s.Restart(hang.Context(t)))
	assert.True(t, exists(t, s, "lost"))

	sentinels := redistest.NewSentinels(t, &redistest.SentinelOptions{Server: &opts})
	sentinels.Servers()[0].CutReplicas()
	do(t, sentinels.Servers()[0], "SET", "lost", "1")
	second, err := sentinels.Failover(hang.Context(t))
	require.NoError(t, err)
	assert.False(t, exists(t, second, "lost"))
	c := redistest.NewCluster(t, &redistest.ClusterOptions{Server: &redistest.Options{Program: opts.Program, TLS: true}, Replicas: 1})
	require.NoError(t, c.Move(hang.Context(t), "a", c.Nodes()[0]))
}

package stores_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/stores"
)

func TestRedisConfigHasWhatTheURLNames(t *testing.T) {
	const url = "redis://u:p%2Fw@a,b:1/3?root=r&nodes=3&max-ttl=30s&weaker=true&ttl=9s&label=x"
	client, o, err := stores.RedisConfig(url, nil)
	require.NoError(t, err)
	assert.Equal(t, []any{[]string{"a:6379", "b:1"}, "u", "p/w", 3}, []any{client.InitAddress, client.Username, client.Password, client.SelectDB})
	assert.Nil(t, client.TLSConfig)
	assert.Empty(t, client.Sentinel.MasterSet)
	assert.Equal(t, []any{"r", 3, 30 * time.Second, true, 9 * time.Second, "x"}, []any{o.Root, o.Nodes, o.MaxTTL, o.AcceptWeaker, o.Session.TTL, o.Session.Label})

	_, _, err = stores.RedisConfig("etcd://db", nil)
	assert.EqualError(t, err, "stores: invalid options: want a URL such as redis://host:6379")
}

func TestATTLThatIsNotGivenIsAtMostTheGreatestOfTheRoot(t *testing.T) {
	for url, want := range map[string]time.Duration{
		"redis://a": 0, "redis://a?max-ttl=5s": 5 * time.Second, "redis://a?max-ttl=1m": session.DefaultTTL, "redis://a?max-ttl=5s&ttl=2s": 2 * time.Second,
	} {
		_, o, err := stores.RedisConfig(url, nil)
		require.NoError(t, err)
		assert.Equal(t, want, o.Session.TTL, url)
	}
}

func TestAPasswordOfRedisWithoutAUserIsThatOfTheDefaultUser(t *testing.T) {
	for _, c := range []struct {
		url string
		o   stores.Options
	}{{url: "redis://:secret@a"}, {url: "redis://a", o: stores.Options{Password: "secret"}}} {
		client, _, err := stores.RedisConfig(c.url, &c.o)
		require.NoError(t, err)
		assert.Equal(t, []string{"default", "secret"}, []string{client.Username, client.Password}, c.url)
	}
}

func TestAPasswordOfRedisIsReadAgainForEachConnection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("one\n")
	client, _, err := stores.RedisConfig("redis://u@db?password-file="+file, nil)
	require.NoError(t, err)
	next := func() rueidis.AuthCredentials {
		c, err := client.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
		require.NoError(t, err)
		return c
	}
	assert.Equal(t, rueidis.AuthCredentials{Username: "u", Password: "one"}, next())
	write("two")
	assert.Equal(t, "two", next().Password)
	require.NoError(t, os.Remove(file))
	assert.Equal(t, "two", next().Password, "the last good one")
}

func TestTheServersBesideAMasterAreSentinels(t *testing.T) {
	client, _, err := stores.RedisConfig("rediss://u:p@a,b:1?master=m", nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"a:26379", "b:1"}, client.InitAddress)
	assert.Equal(t, []string{"m", "", ""}, []string{client.Sentinel.MasterSet, client.Sentinel.Username, client.Sentinel.Password})
	assert.NotNil(t, client.TLSConfig)
	assert.NotNil(t, client.Sentinel.TLSConfig)

	client, _, err = stores.RedisConfig("redis://u:p@a?master=m&sentinel-login=true", nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"u", "p"}, []string{client.Sentinel.Username, client.Sentinel.Password})
}

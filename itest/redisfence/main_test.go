package redisfence

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence/redisfence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) {
	if os.Getenv(holderEnv) != "" {
		hold()
		return
	}
	os.Exit(fencetest.Main(m, open))
}

// connect returns a client of a server. It ends with the process.
func connect(address string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true,
		ConnWriteTimeout: time.Hour, // a worker that was stopped has waited for its answer all the time
	})
}

func newClient(t testing.TB, address string) rueidis.Client {
	t.Helper()
	c, err := connect(address)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// eval runs a script.
func eval(ctx context.Context, c rueidis.Client, script string, keys, args []string) rueidis.RedisResult {
	return c.Do(ctx, c.B().Eval().Script(script).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
}

// open returns a client of the load.
func open(_ context.Context, address string, k fencetest.Kind) (fencetest.Client, error) {
	c, err := connect(address)
	if k == fencetest.Plain {
		return plain{c}, err
	}
	return checked{c}, err
}

type checked struct{ rueidis.Client }

func (c checked) Read(ctx context.Context, resource string, t session.Token) (string, error) {
	get := redisfence.Script(`return redis.call('GET', KEYS[1]) or ''`)
	value, err := eval(ctx, c, get, redisfence.Keys(resource), redisfence.Args(t, session.Exclusive)).ToString()
	return value, redisfence.Err(err)
}

func (c checked) Write(ctx context.Context, resource string, t session.Token, value string) error {
	set := redisfence.Script(`return redis.call('SET', KEYS[1], ARGV[1])`)
	return redisfence.Err(eval(ctx, c, set, redisfence.Keys(resource), redisfence.Args(t, session.Exclusive, value)).Error())
}

type plain struct{ rueidis.Client }

func (c plain) Read(ctx context.Context, resource string, _ session.Token) (string, error) {
	value, err := c.Do(ctx, c.B().Get().Key(resource).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return value, err
}

func (c plain) Write(ctx context.Context, resource string, _ session.Token, value string) error {
	return c.Do(ctx, c.B().Set().Key(resource).Value(value).Build()).Error()
}

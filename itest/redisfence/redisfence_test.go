package redisfence

import (
	"context"
	"math"
	"strconv"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/redisfence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session"
)

// The script compares texts. It must decide like Marks.Touch, which compares numbers.
func TestTheScriptDecidesLikeMarks(t *testing.T) {
	c := newClient(t, redistest.New(t, nil).Addr())
	add := redisfence.Script(`return redis.call('INCR', KEYS[1])`)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		key := strconv.Itoa(run)
		var marks fence.Marks
		accepted := int64(0)
		around := rapid.SampledFrom([]int64{5, 10, 1 << 32, 1 << 53, math.MaxInt64 - 4}).Draw(rt, "around")
		for range rapid.IntRange(1, 20).Draw(rt, "accesses") {
			token := session.Token(around + rapid.Int64Range(-4, 4).Draw(rt, "token"))
			mode := rapid.SampledFrom([]session.Mode{session.Exclusive, session.Shared, session.Weighted}).Draw(rt, "mode")
			after, want := marks.Touch(token, mode)

			n, err := eval(t.Context(), c, add, redisfence.Keys(key), redisfence.Args(token, mode)).ToInt64()

			err = redisfence.Err(err)
			if want != nil {
				var stale *fence.StaleError
				require.ErrorAs(rt, err, &stale)
				require.EqualError(rt, stale, want.Error())
				continue
			}
			require.NoError(rt, err)
			accepted++
			require.Equal(rt, accepted, n, "the body runs once for each access")
			marks = after
		}
	})
}

func TestAnInvalidTokenOrModeIsNoStaleToken(t *testing.T) {
	c := newClient(t, redistest.New(t, nil).Addr())
	script := redisfence.Script(`return redis.call('SET', KEYS[1], ARGV[1])`)
	for _, args := range [][]string{
		nil, {"7"}, {"0", "exclusive"}, {"-1", "exclusive"}, {"07", "exclusive"}, {"7x", "exclusive"}, {"99999999999999999999", "exclusive"}, {"7", "half"},
	} {
		err := redisfence.Err(eval(t.Context(), c, script, redisfence.Keys("ada"), append(args, "value")).Error())

		require.ErrorContains(t, err, "no hold has the token and mode", "%q", args)
		assert.NotErrorIs(t, err, fence.ErrStale)
	}
	require.NoError(t, c.Do(t.Context(), c.B().Hset().Key(redisfence.Mark("ada")).FieldValue().FieldValue("fairlock:exclusive", "much").Build()).Error())
	err := redisfence.Err(eval(t.Context(), c, script, redisfence.Keys("ada"), redisfence.Args(7, session.Exclusive, "value")).Error())
	require.ErrorContains(t, err, "the marks cannot be read")
	n, err := c.Do(t.Context(), c.B().Exists().Key("ada").Build()).ToInt64()
	require.NoError(t, err)
	assert.Zero(t, n, "no body has run")
}

func TestAHashKeepsItsOwnMarks(t *testing.T) {
	c := newClient(t, redistest.New(t, nil).Addr())
	set := redisfence.Script(`return redis.call('HSET', KEYS[1], 'balance', ARGV[1])`)
	keys := []string{"account", "account"}

	require.NoError(t, eval(t.Context(), c, set, keys, redisfence.Args(7, session.Exclusive, "90")).Error())
	err := redisfence.Err(eval(t.Context(), c, set, keys, redisfence.Args(6, session.Exclusive, "80")).Error())

	require.ErrorIs(t, err, fence.ErrStale)
	all, err := c.Do(t.Context(), c.B().Hgetall().Key("account").Build()).AsStrMap()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"balance": "90", "fairlock:exclusive": "7"}, all)
}

func TestAnEvalKeepsMarksByName(t *testing.T) {
	c := newClient(t, redistest.New(t, nil).Addr())
	marks := redisfence.Eval(func(ctx context.Context, script string, keys, args []string) error {
		return eval(ctx, c, script, keys, args).Error()
	})

	require.NoError(t, marks.Touch(t.Context(), "ada", 7, session.Exclusive))
	require.NoError(t, marks.Touch(t.Context(), "bob", 6, session.Exclusive))
	err := marks.Touch(t.Context(), "ada", 6, session.Shared)

	require.ErrorIs(t, err, fence.ErrStale)
	assert.ErrorContains(t, err, `resource "ada": fence: stale token: shared token 6 refused: token 7 was seen`)
}

func TestAClusterTakesDataAndMarksInOneScript(t *testing.T) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: redistest.NewCluster(t, nil).Addrs()})
	require.NoError(t, err)
	defer c.Close()
	for _, key := range []string{"ada", "account:{ada}:balance", "{ada}", "{ada"} {
		err := checked{c}.Write(t.Context(), key, 7, "90")
		require.NoError(t, err, "%q", key)
		require.ErrorIs(t, checked{c}.Write(t.Context(), key, 6, "80"), fence.ErrStale, "%q", key)
	}
}

// After a failover to a replica that lags, data and marks are of one earlier moment.
func TestAFailoverLosesMarksOnlyWithTheirData(t *testing.T) {
	master := redistest.New(t, nil)
	replica, err := master.Replica(hang.Context(t), nil)
	require.NoError(t, err)
	before := checked{newClient(t, master.Addr())}
	require.NoError(t, before.Write(t.Context(), "ada", 5, "five"))
	require.NoError(t, replica.CatchUp(hang.Context(t)))
	require.NoError(t, replica.CutOff())
	require.NoError(t, before.Write(t.Context(), "ada", 7, "seven"), "acknowledged, and not replicated")
	require.NoError(t, replica.Promote(hang.Context(t)))

	after := checked{newClient(t, replica.Addr())}
	require.ErrorIs(t, after.Write(t.Context(), "ada", 4, "four"), fence.ErrStale)
	value, err := after.Read(t.Context(), "ada", 6)

	require.NoError(t, err, "the mark 7 is lost, as its value is")
	assert.Equal(t, "five", value)
}

func TestFencedWritesAloneLoseUpdatesAndFencedFirstTouchesDoNot(t *testing.T) {
	fencetest.TestOrders(t, open, redistest.New(t, nil).Addr())
}

func TestALoadWithStopsAndKillsLosesNoUpdate(t *testing.T) {
	fencetest.TestLoad(t, open, redistest.New(t, nil).Addr())
}

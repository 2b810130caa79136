package redis

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session"
)

// rights returns the rules of the documentation for a user that locks in the root fairlock.
func rights(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, rules, ok := strings.Cut(string(text), "ACL SETUSER app on >secret ")
	require.True(t, ok)
	rules, _, _ = strings.Cut(rules, "```")
	return strings.Fields(strings.ReplaceAll(rules, "\\\n", " "))
}

// as makes a user with rules, and returns how a client logs in as it.
func as(t *testing.T, server *redistest.Server, user string, rules []string) rueidis.ClientOption {
	t.Helper()
	require.NoError(t, server.Do(hang.Context(t), append([]string{"ACL", "SETUSER", user, "reset", "on", ">secret"}, rules...)...).Error())
	o := oneOption(server)
	o.Username, o.Password = user, "secret"
	return o
}

// keys returns the keys of a server.
func keys(t *testing.T, server *redistest.Server) []string {
	t.Helper()
	all, err := server.Do(hang.Context(t), "KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	slices.Sort(all)
	return all
}

func TestTheRightsOfTheDocumentationAreEnough(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, nil)
	option := as(t, server, "app", rights(t))
	require.NoError(t, redisbackend.Init(hang.Context(t), option, nil))
	var all []*session.Session
	for range 2 {
		s, err := redisbackend.Open(hang.Context(t), option, nil)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		all = append(all, s)
	}
	first, err := mutex.NewWith(all[0], "x", mutex.Options{Robust: true}).Lock(hang.Context(t))
	require.NoError(t, err)
	got := make(chan *session.Hold, 1)
	go func() {
		h, err := mutex.NewWith(all[1], "x", mutex.Options{Robust: true}).Lock(hang.Context(t))
		assert.NoError(t, err)
		got <- h
	}()
	hang.Until(t, func() bool {
		q, err := all[0].Queue(hang.Context(t), "x")
		return err == nil && len(q) == 2
	}, "the second client waits")
	recipetest.Unlock(t, first)
	recipetest.Unlock(t, <-got)

	report, err := redisbackend.Examine(hang.Context(t), option, nil)
	require.NoError(t, err)
	assert.Empty(t, report.MissingToRead)
	assert.Empty(t, report.MissingToLock)
	other := &redisbackend.Options{Root: "other"}
	_, err = redisbackend.Open(hang.Context(t), option, other)
	require.ErrorIs(t, err, session.ErrDenied, "the keys of another root")
	assert.ErrorContains(t, err, "access one of the keys")
}

// A script is not rolled back: one that meets a command that it may not use has done what comes before.
func TestWithoutOneRightOpenFailsAndMakesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, nil)
	rules := rights(t)
	commands := 0
	for i, rule := range rules {
		if rule == "+wait" {
			continue // see below
		}
		if strings.HasPrefix(rule, "+") {
			commands++
		}
		less := slices.Delete(slices.Clone(rules), i, i+1)
		option := as(t, server, "less", less)

		_, err := redisbackend.Open(hang.Context(t), option, nil)

		require.ErrorIs(t, err, session.ErrDenied, rule)
		if command, ok := strings.CutPrefix(rule, "+"); ok {
			assert.ErrorContains(t, err, command, rule)
		}
		assert.Empty(t, keys(t, server), rule)
		require.ErrorIs(t, redisbackend.Init(hang.Context(t), option, nil), session.ErrDenied, rule)
		assert.Empty(t, keys(t, server), rule)
	}
	assert.Greater(t, commands, 20)

	less := slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == "+wait" })
	option := as(t, server, "less", less)
	require.NoError(t, redisbackend.Init(hang.Context(t), option, nil), "one server needs no WAIT")
	_, err := redisbackend.Open(hang.Context(t), option, &redisbackend.Options{Root: "fairlock", Nodes: 3})
	require.ErrorIs(t, err, session.ErrDenied)
	assert.ErrorContains(t, err, "wait")
}

// A login that may only read shows queues.
func TestALoginThatMayOnlyReadSeesQueues(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, nil)
	require.NoError(t, redisbackend.Init(hang.Context(t), oneOption(server), nil))
	reading := strings.Fields("~{fairlock}:* &{fairlock}:* +eval +evalsha +info +time +hget +hmget +hgetall +zcard +zcount +zmscore +zrange +zrangebylex +subscribe +unsubscribe")

	report, err := redisbackend.Examine(hang.Context(t), as(t, server, "reader", reading), nil)

	require.NoError(t, err)
	assert.Empty(t, report.MissingToRead)
	assert.Contains(t, report.MissingToLock, "hset")
	assert.Empty(t, report.Hidden[1:], "the settings only")
}

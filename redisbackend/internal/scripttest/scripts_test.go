package scripttest

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
)

// all returns each script of a set, with arguments that it can run with.
func (r *root) all() map[*script.Script][]string {
	write := []string{r.life, "a-1000", "0", "1", "0"}
	with := func(more ...string) []string { return append(slices.Clone(write), more...) }
	return map[*script.Script][]string{
		&r.set.Examine: {"look", "", ""},
		&r.set.Bless:   {r.life, "claim", "1000"},
		&r.set.Init:    {"1000", "1"},
		&r.set.Renew:   {r.life, "a-1000", "0", "0", "16", "1", "b-1000", "1", "e", "q", "5"},
		&r.set.See:     {r.life, "16", "0", "2", "r", "q", "a", "q", "q", ""},
		&r.set.Watch:   {r.life, "a-1000", "0", "0", "1", "e", "q", "5"},
		&r.set.Finish:  {r.life, "a-1000", ""},
		&r.set.Join:    with("1", "q", "1", "1", "0", "data", "1", "detail", "0", "64", "1", "0", "1", "x/"),
		&r.set.Settle:  {r.life, "a-1000", "0", "1", "1", "q", "1", "a"},
		&r.set.Leave:   with("1", "q", "5", "0", "1", "0"),
		&r.set.Update:  with("q", "", "0", "0", "", "0", "", "0"),
		&r.set.Read:    {r.life, "q", "0", "0", "0", "1", "0"},
		&r.set.Names:   {r.life, ""},
	}
}

func TestEveryScriptRuns(t *testing.T) {
	for _, k := range []script.Kind{{}, {Cluster: true}, {Flags: true}, {Cluster: true, Flags: true}} {
		r := newRoot(t)
		r.set = script.New(k)
		all := r.all()
		require.Len(t, all, reflect.TypeFor[script.Set]().NumField()-1)
		for s, args := range all {
			if s != &r.set.Init && s != &r.set.Bless {
				command(t, "DEL", r.prefix+"s:a-1000")
				r.opens("a-1000")
			}
			reply := r.reply(s, args...)
			assert.NotContains(t, []string{script.Life, script.Replica, ""}, reply.Text(0), s.Name)
			loaded := command(t, "SCRIPT", "LOAD", s.Text)
			assert.Equal(t, s.SHA, loaded, "%s: the server names it so", s.Name)
		}
	}
}

func TestAScriptOfAnotherLifeDoesNothing(t *testing.T) {
	r := newRoot(t)
	r.opens("a-1000")
	before := command(t, "HGETALL", r.prefix+"s:a-1000")
	for s, args := range r.all() {
		if args[0] != r.life || s == &r.set.Bless {
			continue
		}
		args[0] = strings.Repeat("0", 40)
		assert.Equal(t, "[LIFE]", r.run(s, args...), s.Name)
	}

	command(t, "HSET", r.prefix+"meta", "life", "feed") // as the data of another server
	for s, args := range r.all() {
		if args[0] == r.life && s != &r.set.Bless {
			assert.Equal(t, "[LIFE]", r.run(s, args...), s.Name)
		}
	}
	assert.Equal(t, before, command(t, "HGETALL", r.prefix+"s:a-1000"))
	assert.Equal(t, "0", command(t, "EXISTS", r.prefix+"q:q", r.prefix+"h:q", r.prefix+"r:q"))
}

// A server of Redis 7 or later refuses what may write by itself.
func TestAReplicaIsNotUsed(t *testing.T) {
	r := newRoot(t)
	command(t, "REPLICAOF", "127.0.0.1", "1")
	defer command(t, "REPLICAOF", "NO", "ONE")
	flagged := r.set
	r.set = script.New(script.Kind{})
	for s, args := range r.all() {
		assert.Equal(t, "[REPLICA]", r.run(s, args...), s.Name)
	}
	r.set = flagged
	for s, args := range r.all() {
		v, err := r.do(s, args...).ToAny()
		if err == nil {
			assert.Equal(t, []any{script.Replica}, v, s.Name)
		} else {
			require.ErrorContains(t, err, "READONLY", s.Name)
		}
	}
	command(t, "REPLICAOF", "NO", "ONE")

	life := r.reply(&r.set.Examine, "look", "", "").Text(1)
	assert.NotEqual(t, r.life, life, "what was a replica meanwhile has another life")
	assert.Equal(t, script.Life, r.renew("a-1000", true))
}

func TestASessionThatIsNotThereIsOver(t *testing.T) {
	r := newRoot(t)
	for s, args := range r.all() {
		if slices.Contains([]string{"renew", "join", "settle", "leave", "update"}, s.Name) {
			assert.Equal(t, "[OVER]", r.run(s, args...), s.Name)
		}
	}
	assert.Equal(t, "0", command(t, "EXISTS", r.prefix+"s:a-1000", r.prefix+"ses", r.prefix+"q:q"))
}

// The table at the top of once.lua.
func TestACallIsCarriedOutOnce(t *testing.T) {
	r := newRoot(t)
	const a = "a-1000"
	r.opens(a)
	first := r.join(turn{session: a, slot: 0, number: 1}, "q", false)
	require.Equal(t, script.OK, first.Text(0))
	again := r.join(turn{session: a, slot: 0, number: 1}, "q", false)
	assert.Equal(t, first.Text(1), again.Text(1), "the kept reply")
	assert.Equal(t, 1, r.count("q"))

	second := r.join(turn{session: a, slot: 0, number: 2}, "q", false)
	assert.Equal(t, script.OK, second.Text(0), "a higher number is another call")
	assert.Greater(t, second.Int(1), first.Int(1))
	assert.Equal(t, script.Old, r.join(turn{session: a, slot: 0, number: 1}, "q", false).Text(0), "it comes too late")
	assert.Equal(t, 2, r.count("q"))
	assert.Equal(t, script.OK, r.join(turn{session: a, slot: 1, number: 1}, "q", false).Text(0), "another slot")

	c := turn{session: a, slot: 2, number: 1}
	assert.EqualValues(t, 1, r.leave(c, "q", first.Int(1)).List(1).Int(0))
	assert.EqualValues(t, 1, r.leave(c, "q", first.Int(1)).List(1).Int(0), "it was deleted by this call")
	assert.EqualValues(t, 0, r.leave(turn{session: a, slot: 2, number: 2}, "q", first.Int(1)).List(1).Int(0))
	assert.Equal(t, 2, r.count("q"))
}

// A refusal is an answer: a copy that comes later must not join.
func TestARefusalIsKept(t *testing.T) {
	r := newRoot(t)
	const a = "a-1000"
	r.opens(a)
	r.opens("b-1000")
	entry := r.join(turn{session: "b-1000", number: 1}, "q", false, "a")
	taken, refused := turn{session: a, slot: 0, number: 1}, turn{session: a, slot: 1, number: 1}
	require.Equal(t, script.Taken, r.join(taken, "q", true).Text(0))
	require.Equal(t, script.Refused, r.join(refused, "q", false, "a").Text(0))
	gone := turn{session: a, slot: 2, number: 1}
	update := append(gone.args(r.life), "q", "77", "1", "0", "", "0", "", "0")
	require.Equal(t, "[GONE]", r.run(&r.set.Update, update...))
	r.leave(turn{session: "b-1000", number: 2}, "q", entry.Int(1))
	command(t, "DEL", r.prefix+"r:q")

	assert.Equal(t, script.Taken, r.join(taken, "q", true).Text(0))
	assert.Equal(t, script.Refused, r.join(refused, "q", false, "a").Text(0))
	assert.Equal(t, "[GONE]", r.run(&r.set.Update, update...))
	assert.Zero(t, r.count("q"))
}

func TestAGivenUpCallIsRefusedFromTheNextWriteOn(t *testing.T) {
	r := newRoot(t)
	const a = "a-1000"
	r.opens(a)
	lost := turn{session: a, slot: 0, number: 3}
	assert.Equal(t, script.OK, r.join(turn{session: a, slot: 1, number: 1, given: []int64{0, 3}}, "q", false).Text(0))
	assert.Equal(t, script.Old, r.join(lost, "q", false).Text(0))
	assert.Equal(t, script.Old, r.join(turn{session: a, slot: 0, number: 2}, "q", false).Text(0))
	assert.Equal(t, script.OK, r.join(turn{session: a, slot: 0, number: 4}, "q", false).Text(0))
	assert.Equal(t, script.OK, r.join(turn{session: a, slot: 2, number: 1, given: []int64{0, 3}}, "q", false).Text(0), "an old list harms nothing")
	assert.Equal(t, script.OK, r.join(turn{session: a, slot: 0, number: 4}, "q", false).Text(0), "its reply is kept")
	assert.Equal(t, 3, r.count("q"))
}

// A call may be given up between two attempts of another one. The answer to the second shows that the server
// knows it, also if it is the kept one.
func TestARepeatedCallTellsWhatWasGivenUpMeanwhile(t *testing.T) {
	r := newRoot(t)
	const a = "a-1000"
	r.opens(a)
	r.join(turn{session: a, slot: 1, number: 1}, "q", false)
	r.join(turn{session: a, slot: 1, number: 1, given: []int64{0, 1}}, "q", false)
	assert.Equal(t, script.Old, r.join(turn{session: a, slot: 0, number: 1}, "q", false).Text(0))
	assert.Equal(t, 1, r.count("q"))
}

func TestASettleBeforeTheJoinRefusesIt(t *testing.T) {
	r := newRoot(t)
	const a = "a-1000"
	r.opens(a)
	c := turn{session: a, number: 1}
	assert.Equal(t, script.OK, r.settle(c, "q", "a"))
	assert.Equal(t, script.Old, r.join(c, "q", false, "a").Text(0))
	assert.Zero(t, r.count("q"))
	assert.Empty(t, command(t, "HGET", r.prefix+"r:q", "a"))
}

func TestASettleAfterTheJoinLeavesNothing(t *testing.T) {
	r := newRoot(t)
	const a = "a-1000"
	r.opens(a)
	c := turn{session: a, number: 1}
	require.Equal(t, script.OK, r.join(c, "q", false, "a").Text(0))
	assert.Equal(t, script.OK, r.settle(c, "q", "a"))
	assert.Equal(t, script.OK, r.settle(c, "q", "a"))
	assert.Equal(t, script.Old, r.join(c, "q", false, "a").Text(0), "a copy of it")
	assert.Zero(t, r.count("q"))
	assert.Equal(t, "0", command(t, "EXISTS", r.prefix+"r:q"))
	assert.Equal(t, "0", command(t, "ZCARD", r.prefix+"names"))
	assert.Equal(t, "2", command(t, "HLEN", r.prefix+"s:"+a), "that it lives, and the slot")
}

// The slot may have been used again since.
func TestALateSettleLeavesALaterJoin(t *testing.T) {
	r := newRoot(t)
	const a = "a-1000"
	r.opens(a)
	r.settle(turn{session: a, number: 1}, "q", "a")
	require.Equal(t, script.OK, r.join(turn{session: a, number: 2}, "q", false, "a").Text(0))
	assert.Equal(t, script.OK, r.settle(turn{session: a, number: 1}, "q", "a"))
	assert.Equal(t, 1, r.count("q"))
	assert.NotEmpty(t, command(t, "HGET", r.prefix+"r:q", "a"))
	assert.Equal(t, script.OK, r.join(turn{session: a, number: 2}, "q", false, "a").Text(0))
}

// A record that another one has written meanwhile is not that of the join.
func TestASettleLeavesTheRecordsOfOthers(t *testing.T) {
	r := newRoot(t)
	r.opens("a-1000")
	c := turn{session: "a-1000", number: 1}
	require.Equal(t, script.OK, r.join(c, "q", false, "a").Text(0))
	command(t, "HSET", r.prefix+"r:q", "a", "99::theirs")
	assert.Equal(t, script.OK, r.settle(c, "q", "a"))
	assert.Equal(t, "99::theirs", command(t, "HGET", r.prefix+"r:q", "a"))
}

func TestASessionIsEndedOnlyWithItsVersion(t *testing.T) {
	r := newRoot(t)
	const a = "a-1000"
	r.opens(a)
	seen := r.version(a)
	require.Equal(t, script.OK, r.join(turn{session: a, number: 1}, "q", false, "a").Text(0))
	require.Equal(t, script.OK, r.renew(a, false))
	r.run(&r.set.Finish, r.life, a, seen)
	assert.Equal(t, 1, r.count("q"), "it was renewed since")
	r.run(&r.set.Finish, r.life, a, r.version(a))
	assert.Zero(t, r.count("q"))
	assert.Equal(t, "0", command(t, "EXISTS", r.prefix+"s:"+a, r.prefix+"r:q", r.prefix+"ses", r.prefix+"names"), "nothing is left")
	assert.Equal(t, script.Over, r.renew(a, false))
	assert.Equal(t, script.Over, r.join(turn{session: a, number: 2}, "q", false).Text(0))
}

func TestANumberIsAboveAllBeforeIt(t *testing.T) {
	r := newRoot(t)
	r.opens("a-1000")
	first := r.join(turn{session: "a-1000", number: 1}, "q", false).Int(1)
	command(t, "HSET", r.prefix+"meta", "last", "9007199254740000") // as of a server whose clock is ahead
	second := r.join(turn{session: "a-1000", number: 2}, "q", false).Int(1)
	assert.Greater(t, second, first)
	assert.EqualValues(t, 9007199254740001, second)
}

// A program that comes to a new life late goes on above what it has seen in the one before.
func TestASessionBeginsAboveWhatItsProgramHasSeen(t *testing.T) {
	r := newRoot(t)
	r.opens("a-1000")
	seen := r.join(turn{session: "a-1000", number: 1}, "q", false).Int(1) + 1_000_000_000

	assert.Equal(t, seen+1, r.reply(&r.set.Renew, r.life, "b-1000", "1", strconv.FormatInt(seen, 10), "0", "0", "0").Int(3))
	assert.Equal(t, strconv.FormatInt(seen+1, 10), r.version("b-1000"))
	assert.Greater(t, r.join(turn{session: "a-1000", number: 2}, "q", false).Int(1), seen+1)
	before := number(t, r.version("b-1000"))
	assert.Greater(t, r.reply(&r.set.Renew, r.life, "b-1000", "0", strconv.FormatInt(2*seen, 10), "0", "0", "0").Int(3), before)
	assert.Less(t, number(t, r.version("b-1000")), 2*seen, "only an opening moves the numbers on")
}

// The steps of a quarantine.
func TestAClaimIsComparedCountedAndBlessed(t *testing.T) {
	r := newRoot(t)
	r.opens("a-1000")
	r.join(turn{session: "a-1000", number: 1}, "q", false, "a")
	seen := "0"
	claim := func(life, before, claim string) script.Reply {
		return r.reply(&r.set.Examine, "claim", life, before, claim, "60000", "1", seen)
	}
	count := func(claim, sum, added string) script.Reply {
		return r.reply(&r.set.Examine, "count", r.life, claim, sum, added, seen)
	}
	shown := func(a script.Reply) []string { return []string{a.Text(2), a.Text(5), a.Text(6)} } // wrote, claim, sum
	assert.Equal(t, []string{"0", "", "0"}, shown(claim(r.life, "", "x")), "it is whole")
	command(t, "HSET", r.prefix+"meta", "life", "feed")

	assert.Equal(t, []string{"0", "", "0"}, shown(claim("beef", "", "x")), "of another life")
	assert.Equal(t, []string{"1", "x", "0"}, shown(claim(r.life, "", "x")))
	assert.Equal(t, []string{"0", "x", "0"}, shown(claim(r.life, "", "y")), "another claim was there first")
	assert.Equal(t, []string{"1", "x", "500"}, shown(count("x", "0", "500")))
	assert.Equal(t, []string{"0", "x", "500"}, shown(count("x", "0", "500")), "a copy of it, or another program at once")
	assert.Equal(t, []string{"0", "x", "500"}, shown(count("y", "500", "500")), "for another claim")
	assert.Equal(t, []string{"1", "x", "700"}, shown(count("x", "500", "200")))
	assert.Equal(t, []string{"1", "x", "700"}, shown(claim(r.life, "x", "x")), "the same claim leaves the sum")

	assert.Equal(t, "[OLD]", r.run(&r.set.Bless, r.life, "y", "60000"))
	assert.Equal(t, "[OLD]", r.run(&r.set.Bless, "beef", "x", "60000"))
	assert.Equal(t, 1, r.count("q"))
	assert.Equal(t, []string{"1", "y", "0"}, shown(claim(r.life, "x", "y")), "another claim begins anew")
	last := command(t, "HGET", r.prefix+"meta", "last")
	seen = strconv.FormatInt(number(t, last)-1, 10)
	count("y", "0", "1")
	assert.Equal(t, last, command(t, "HGET", r.prefix+"meta", "last"))
	for i, step := range []func(){func() { claim(r.life, "y", "y") }, func() { count("y", "0", "1") }} {
		seen = strconv.FormatInt(number(t, last)+1_000_000_000, 10) // of a clock that was ahead
		step()
		last = command(t, "HGET", r.prefix+"meta", "last")
		assert.Equal(t, seen, last, i)
	}
	assert.Equal(t, "[OK]", r.run(&r.set.Bless, r.life, "y", "60000"))
	assert.Zero(t, r.count("q"))
	assert.Equal(t, "1", command(t, "EXISTS", r.prefix+"meta", r.prefix+"ses", r.prefix+"s:a-1000", r.prefix+"r:q", r.prefix+"q:q", r.prefix+"names"))
	assert.Equal(t, r.life, command(t, "HGET", r.prefix+"meta", "life"))
	assert.Empty(t, command(t, "HGET", r.prefix+"meta", "claim"))
	moved := command(t, "HGET", r.prefix+"meta", "last")
	assert.GreaterOrEqual(t, number(t, moved), number(t, last)+60_000_000, "an older server may have given out numbers until now, by its own clock")
	assert.Equal(t, "[OK]", r.run(&r.set.Bless, r.life, "y", "60000"), "another program was first")
	assert.Equal(t, moved, command(t, "HGET", r.prefix+"meta", "last"))
}

func number(t *testing.T, s string) (n int64) {
	t.Helper()
	for _, digit := range s {
		n = 10*n + int64(digit-'0')
	}
	return n
}

func TestInitChangesNothingWhereTheRootIsThere(t *testing.T) {
	r := newRoot(t)
	assert.Equal(t, "[THERE]", r.run(&r.set.Init, "1000", "3"))
	assert.Equal(t, "60000", command(t, "HGET", r.prefix+"meta", "max"))
	command(t, "HSET", r.prefix+"meta", "life", "feed")
	assert.Equal(t, "[THERE]", r.run(&r.set.Init, "1000", "3"), "it ends no quarantine")
	assert.Equal(t, "feed", command(t, "HGET", r.prefix+"meta", "life"))
}

// A cluster has all keys of a root in one slot, so that a script can use them.
func TestAllKeysOfARootHaveOneSlot(t *testing.T) {
	r := newRoot(t)
	r.opens("a-1000")
	r.join(turn{session: "a-1000", number: 1}, "q}{x", false, "a}")
	keys, err := server.Do(hang.Context(t), server.B().Keys().Pattern(r.prefix+"*").Build()).AsStrSlice()
	require.NoError(t, err)
	assert.Len(t, keys, 7)
	tag := func(key string) string { // as Redis hashes
		_, rest, _ := strings.Cut(key, "{")
		tag, _, _ := strings.Cut(rest, "}")
		return tag
	}
	for _, k := range keys {
		assert.Equal(t, tag(r.prefix), tag(k), k)
	}
}

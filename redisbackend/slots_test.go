package redisbackend

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/redisbackend/internal/script"
)

var seedFlag = flag.Int("seed", -1, "the only seed that the random test runs")

// fakeTable is what once.lua and settle.lua keep of one session.
type fakeTable map[int]kept

type kept struct {
	number int64
	reply  string // "" for a call that was given up
}

// once does what once.lua does with an attempt, and reports whether it was carried out.
func (f fakeTable) once(args script.Args, reply string) (answer string, carriedOut bool) {
	n := numbers(args[1:])
	slot, number, given := int(n[0]), n[1], n[3:]
	for i := 0; i < len(given); i += 2 {
		s, n := int(given[i]), given[i+1]
		if f[s].number <= n {
			f[s] = kept{number: n}
		}
	}
	switch own := f[slot]; {
	case own.number > number, own.number == number && own.reply == "":
		return script.Old, false
	case own.number == number:
		return own.reply, false
	}
	f[slot] = kept{number, reply}
	return reply, true
}

func (f fakeTable) settle(t turn) {
	if f[t.slot].number <= t.number {
		f[t.slot] = kept{number: t.number}
	}
}

func numbers(args script.Args) []int64 {
	var all []int64
	for _, a := range args {
		n, err := strconv.ParseInt(a, 10, 64)
		if err != nil {
			panic(err)
		}
		all = append(all, n)
	}
	return all
}

// fakeCall is one call of a session.
type fakeCall struct {
	turn
	name     string
	joins    bool
	attempts []fakeAttempt
	carried  int
	over     string // "" while it is under way, "answered", "given up", "settled"
	since    int    // the step of the walk in which it was given up or settled
}

// fakeAttempt is a request that is on its way; it may arrive late, or never.
type fakeAttempt struct {
	args  script.Args
	given []turn
}

// walk is a session whose requests arrive in any order, at any time, or never.
type walk struct {
	*rand.Rand
	slots
	table fakeTable
	calls []*fakeCall
	step  int

	// closed is the newest step in which a write began that was answered.
	closed int
}

// arrive has the server take in an attempt of a call.
func (w *walk) arrive(c *fakeCall, a fakeAttempt) (string, error) {
	answer, carriedOut := w.table.once(a.args, "reply to "+c.name)
	if !carriedOut {
		return answer, nil
	}
	c.carried++
	switch {
	case c.carried > 1:
		return answer, fmt.Errorf("%s was carried out twice", c.name)
	case c.over == "settled":
		return answer, fmt.Errorf("%s was carried out after it was settled", c.name)
	case c.over == "given up" && !c.joins && c.since < w.closed: // a Join is settled
		return answer, fmt.Errorf("%s was carried out, and a write that began after it was given up was answered", c.name)
	}
	return answer, nil
}

// next does one random thing.
func (w *walk) next() error {
	w.step++
	var under, pending, all []*fakeCall
	for _, c := range w.calls {
		switch {
		case c.over == "":
			under = append(under, c)
		case c.over == "given up" && c.joins:
			pending = append(pending, c)
		}
		if len(c.attempts) > 0 {
			all = append(all, c)
		}
	}
	pick := func(some []*fakeCall) *fakeCall { return some[w.IntN(len(some))] }
	switch n := w.IntN(10); {
	case n < 2 || len(under) == 0:
		if len(under) < 4 {
			w.calls = append(w.calls, &fakeCall{turn: w.begin(), name: fmt.Sprint("call ", len(w.calls)), joins: w.IntN(3) == 0, since: w.step})
		}
	case n < 4: // sends an attempt
		c := pick(under)
		var a fakeAttempt
		a.args, a.given = w.args("s", c.turn)
		c.attempts = append(c.attempts, a)
	case n < 7: // the newest attempt of a call is answered
		c := pick(under)
		if len(c.attempts) == 0 {
			return nil
		}
		a := c.attempts[len(c.attempts)-1]
		answer, err := w.arrive(c, a)
		if err != nil {
			return err
		}
		if answer != "reply to "+c.name {
			return fmt.Errorf("%s is answered with %q", c.name, answer)
		}
		w.known(a.given)
		w.answered(c.turn)
		w.closed = max(w.closed, c.since)
		c.over = "answered"
	case n < 8: // is given up
		c := pick(under)
		c.over, c.since = "given up", w.step
		if c.joins {
			w.wait(c.turn)
		} else {
			w.gaveUp(c.turn)
		}
	case n < 9 && len(pending) > 0:
		c := pick(pending)
		w.table.settle(c.turn)
		w.settled(c.turn)
		if w.IntN(2) == 0 {
			w.settled(c.turn) // by another call
		}
		c.over, c.since = "settled", w.step
	case len(all) > 0: // an old attempt arrives, and no call gets its answer
		c := pick(all)
		i := w.IntN(len(c.attempts))
		_, err := w.arrive(c, c.attempts[i])
		return err
	}
	return nil
}

// A call is carried out at most once, and not at all after a Join was settled, or after a write was
// answered that began after the call was given up.
func TestAGivenUpCallIsNeverCarriedOutAfterALaterWrite(t *testing.T) {
	const seeds = 1000
	for seed := range uint64(seeds) {
		if *seedFlag >= 0 {
			seed = uint64(*seedFlag) //nolint:gosec // it is not negative
		}
		w := &walk{Rand: rand.New(rand.NewPCG(seed, 1)), table: fakeTable{}} //nolint:gosec // a test can be repeated
		for range 200 {
			require.NoError(t, w.next(), "seed %d, step %d: repeat it with -seed %d", seed, w.step, seed)
		}
		if *seedFlag >= 0 {
			return
		}
	}
}

func TestASlotIsUsedAgainWhenItsCallIsOver(t *testing.T) {
	var s slots
	one := s.begin()
	assert.Equal(t, turn{0, 1}, one)
	two := s.begin()
	assert.Equal(t, turn{1, 1}, two)
	s.answered(one)
	assert.Equal(t, turn{0, 2}, s.begin())

	s.gaveUp(two)
	assert.Equal(t, turn{2, 1}, s.begin(), "an attempt of the second may still arrive")
	args, given := s.args("s", turn{2, 1})
	assert.Equal(t, script.Args{"s", "2", "1", "1", "1", "1"}, args)
	assert.Equal(t, []turn{two}, given)
	s.known(given)
	s.known(given)
	assert.Equal(t, turn{1, 2}, s.begin(), "the server refuses it now")
	assert.Equal(t, turn{3, 1}, s.begin(), "it was free once")
}

func TestAJoinKeepsItsSlotUntilItIsSettled(t *testing.T) {
	var s slots
	join := s.begin()
	s.wait(join)
	_, given := s.args("s", s.begin())
	assert.Empty(t, given, "a settle does more than that")
	assert.Equal(t, turn{2, 1}, s.begin())
	s.settled(join)
	s.settled(join)
	assert.Equal(t, turn{0, 2}, s.begin())
	assert.Equal(t, turn{3, 1}, s.begin(), "it was free once")
}

func TestSlotsAreAsManyAsCallsAtOnce(t *testing.T) {
	var s slots
	for range 1000 {
		var all []turn
		for range 3 {
			all = append(all, s.begin())
		}
		for _, t := range slices.Backward(all) {
			s.answered(t)
		}
	}
	assert.Len(t, s.numbers, 3)
	assert.EqualValues(t, 1000, s.numbers[0])
}

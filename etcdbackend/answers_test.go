package etcdbackend

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

// answer is n answers that each took so long, and came one after another or all
// at once.
type answer struct {
	n      int
	took   time.Duration
	atOnce bool
}

// play takes answers in and returns when the last of them came.
func (a *answerTimes) play(now time.Time, all ...answer) time.Time {
	for _, x := range all {
		for range x.n {
			if !x.atOnce {
				now = now.Add(x.took)
			}
			a.answered(now, x.took)
		}
	}
	return now
}

func TestAnswersMakeTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		answers    []answer
		least, end time.Duration
	}{
		"nothing is known":               {nil, 0, 0},
		"the first (RFC 6298, 2.2)":      {[]answer{{1, 100 * ms, false}}, 300 * ms, 300 * ms},
		"the second (RFC 6298, 2.3)":     {[]answer{{1, 100 * ms, false}, {1, 180 * ms, false}}, 340 * ms, 340 * ms},
		"always the same":                {[]answer{{100, 100 * ms, false}}, 100 * ms, 101 * ms},
		"one that is slow":               {[]answer{{100, 1 * ms, false}, {1, 1000 * ms, false}}, 1000 * ms, 1130 * ms},
		"and then quick ones":            {[]answer{{100, 1 * ms, false}, {1, 1000 * ms, false}, {5000, 1 * ms, false}}, 1 * ms, 2 * ms},
		"quick ones among slow ones":     {[]answer{{20, 1000 * ms, false}, {1000, 1 * ms, true}}, 1000 * ms, 1000 * ms * 21 / 20},
		"slow for long, and then quick":  {[]answer{{20, 1000 * ms, false}, {10_000, 1 * ms, false}}, 1 * ms, 400 * ms},
		"a service that slows down":      {[]answer{{100, 1 * ms, true}, {1, 5 * ms, true}, {1, 10 * ms, true}, {1, 20 * ms, true}}, 20 * ms, 40 * ms},
		"one that is quick and all slow": {[]answer{{1, 1 * ms, false}, {60, 700 * ms, false}}, 700 * ms, 720 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			var a answerTimes
			a.play(time.Time{}, c.answers...)

			assert.GreaterOrEqual(t, a.limit(), c.least)
			assert.LessOrEqual(t, a.limit(), c.end)
		})
	}
}

func TestSilenceDoublesOnceForAllThatWaitTogether(t *testing.T) {
	var a answerTimes
	now := a.play(time.Time{}, answer{1, 100 * ms, false})
	sent := now.Add(ms)
	for range 100 {
		a.unanswered(sent, 0)
	}
	assert.Equal(t, 1, a.doubled)
	a.unanswered(sent, 1) // sent after that, and given up too
	a.unanswered(sent, 0)
	assert.Equal(t, 2, a.doubled)

	now = a.play(now, answer{1, 100 * ms, false})
	assert.Zero(t, a.doubled, "an answer came")
	a.unanswered(sent, 2)
	assert.Zero(t, a.doubled, "it came while this one was waited for")

	a.unanswered(now.Add(ms), 1000)
	assert.Equal(t, maxDoubled, a.doubled)
}

// rounding is what three divisions lose.
const rounding = 8 * time.Nanosecond

// Whatever came before: an answer that has just come would have been waited for;
// one that is quicker than was thought makes no limit longer; and it takes a round
// trip to make it shorter.
func TestAnswersAreWaitedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a answerTimes
		now := time.Time{}
		for range rapid.IntRange(1, 200).Draw(t, "answers") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "later")))
			if rapid.IntRange(0, 9).Draw(t, "silent") == 0 {
				a.unanswered(now.Add(-time.Duration(rapid.Int64Range(-1000, 1000).Draw(t, "ago"))), rapid.IntRange(0, 40).Draw(t, "doubled"))
				continue
			}
			took := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "took"))
			was := a
			a.answered(now, took)

			if a.limit() < took-rounding {
				t.Fatalf("an answer took %s, and the limit after it is %s (before: %+v)", took, a.limit(), was)
			}
			if was.mean > 0 && took < was.mean && a.limit() > was.limit() {
				t.Fatalf("an answer took %s, and the limit rose from %s to %s (before: %+v)", took, was.limit(), a.limit(), was)
			}
			if a.limit() < was.limit() && now.Sub(was.fell) < was.mean {
				t.Fatalf("the limit fell from %s to %s after %s (before: %+v)", was.limit(), a.limit(), now.Sub(was.fell), was)
			}
			if a.mean <= 0 || a.deviation < 0 || a.doubled < 0 || a.doubled > maxDoubled {
				t.Fatalf("%+v after %s", a, took)
			}
		}
	})
}

package history_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/robustness/history"
)

// granted returns holds at places, with the same times for all.
func granted(places ...int64) []history.Attempt {
	var all []history.Attempt
	for i, place := range places {
		all = append(all, history.Attempt{Client: i, Queue: "queue", Asked: 1, Got: 2, Place: place, Token: place, Weight: 1})
	}
	return all
}

func TestReplayKnowsTheRules(t *testing.T) {
	joined := func(at int64) history.Change {
		return history.Change{At: at, Kind: history.Joined, Place: at, Weight: 1}
	}
	reader := func(at int64) history.Change {
		return history.Change{At: at, Kind: history.Joined, Place: at, Shared: true}
	}
	weighs := func(at, weight int64) history.Change {
		return history.Change{At: at, Kind: history.Joined, Place: at, Weight: weight}
	}
	left := func(at, place int64) history.Change { return history.Change{At: at, Kind: history.Left, Place: place} }
	shares := func(at, place int64) history.Change {
		return history.Change{At: at, Kind: history.Shares, Place: place, Shared: true}
	}
	limit := func(at, n int64) history.Change { return history.Change{At: at, Kind: history.LimitSet, Limit: n} }
	type changes = []history.Change
	mutex, rw := history.Queue{Name: "queue", Recipe: history.Mutex}, history.Queue{Name: "queue", Recipe: history.ReadWrite}
	of3 := history.Queue{Name: "queue", Recipe: history.Semaphore, Limit: 3}

	for _, c := range []struct {
		name    string
		queue   history.Queue
		changes changes
		grants  []int64
		want    []string // the properties that are broken
	}{
		{"one after another", mutex, changes{joined(1), joined(2), left(3, 1), left(4, 2)}, []int64{1, 2}, nil},
		{"the one between gave up", mutex, changes{joined(1), joined(2), joined(3), left(4, 2), left(5, 1), left(6, 3)}, []int64{1, 3}, nil},
		{"before it was first", mutex, changes{joined(1), joined(2), left(3, 2), left(4, 1)}, []int64{1, 2}, []string{"S4"}},
		{"two go at once", mutex, changes{joined(1), joined(2), joined(3), left(4, 1), left(4, 2), left(5, 3)}, []int64{1, 2, 3}, []string{"S4"}},
		{"comes and goes at once", mutex, changes{joined(1), left(1, 1)}, []int64{1}, []string{"S4"}},
		{"readers together", rw, changes{reader(1), reader(2), joined(3), left(4, 2), left(5, 1), left(6, 3)}, []int64{1, 2, 3}, nil},
		{"reader behind a waiting writer", rw, changes{reader(1), joined(2), reader(3), left(4, 3), left(5, 1), left(6, 2)}, []int64{1, 2, 3}, []string{"S4"}},
		{"reader behind one that shares", rw, changes{joined(1), reader(2), shares(3, 1), left(4, 2), left(5, 1)}, []int64{1, 2}, nil},
		{"writer behind one that shares", rw, changes{joined(1), joined(2), shares(3, 1), left(4, 2), left(5, 1)}, []int64{1, 2}, []string{"S4"}},
		{"permits", of3, changes{weighs(1, 2), weighs(2, 1), weighs(3, 1), left(4, 1), left(5, 2), left(6, 3)}, []int64{1, 2, 3}, nil},
		{"small one overtakes", of3, changes{weighs(1, 2), weighs(2, 3), weighs(3, 1), left(4, 3), left(5, 1), left(6, 2)}, []int64{1, 2, 3}, []string{"S4"}},
		{"a higher limit", of3, changes{weighs(1, 3), weighs(2, 2), limit(3, 5), left(4, 2), left(5, 1)}, []int64{1, 2}, nil},
		{"a lower limit", of3, changes{weighs(1, 1), limit(2, 2), weighs(3, 2), left(4, 3), left(5, 1)}, []int64{1, 3}, []string{"S4"}},
		{"a lower limit takes nothing", of3, changes{weighs(1, 3), limit(2, 1), left(3, 1)}, []int64{1}, nil},
		{"a peer's entry holds alone", of3, changes{weighs(1, 0), weighs(2, 1), left(3, 2), left(4, 1)}, []int64{1, 2}, []string{"S4"}},
		{"behind a peer's entry", of3, changes{weighs(1, 1), weighs(2, 0), weighs(3, 1), left(4, 3), left(5, 1), left(6, 2)}, []int64{1, 2, 3}, []string{"S4"}},
		{"a peer's entry among readers", rw, changes{reader(1), joined(2), reader(3), left(4, 1), left(5, 3), left(6, 2)}, []int64{1, 2}, nil},
		{"not in the queue", mutex, changes{joined(1), left(2, 1)}, []int64{1, 2}, []string{"S4"}},
		{"left behind", mutex, changes{joined(1), joined(2), left(3, 1)}, []int64{1}, []string{"S5"}},
		{"put before another", mutex, changes{joined(2), left(3, 2), joined(1), left(4, 1)}, []int64{2}, []string{"S4", "S4"}},
		{"left twice", mutex, changes{joined(1), left(2, 1), left(3, 1)}, []int64{1}, []string{"S4"}},
		{"unknown kind", mutex, changes{joined(1), {At: 2, Kind: "moved", Place: 1}, left(3, 1)}, []int64{1}, []string{"model"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := history.Replay(c.queue, c.changes, granted(c.grants...), always)

			var properties []string
			for _, v := range found {
				properties = append(properties, v.Property)
			}
			assert.Equal(t, c.want, properties, "%v", found)
		})
	}
}

// A grant cannot return before the release was called that made it possible, whatever
// the clock of the store is.
func TestReplayFindsEarlyGrantWithoutTheStoresClock(t *testing.T) {
	queue := history.Queue{Name: "queue", Recipe: history.Mutex}
	order := []history.Change{
		{At: 1, Kind: history.Joined, Place: 1},
		{At: 2, Kind: history.Joined, Place: 2},
		{At: 3, Kind: history.Left, Place: 1},
		{At: 4, Kind: history.Left, Place: 2},
	}
	first := history.Attempt{Client: 1, Queue: "queue", Asked: 10, Got: 20, Held: 30, Back: 40, Done: 50, Outcome: history.Released, Place: 1}
	next := history.Attempt{Client: 2, Queue: "queue", Asked: 15, Got: 40, Place: 2}

	assert.Empty(t, history.Replay(queue, order, []history.Attempt{first, next}, always))

	next.Got = 39
	found := history.Replay(queue, order, []history.Attempt{first, next}, always)
	if assert.Len(t, found, 1) {
		assert.Equal(t, "S4", found[0].Property)
	}

	first.Told = 35 // then the acknowledgement of the release shows nothing
	assert.Empty(t, history.Replay(queue, order, []history.Attempt{first, next}, always))
}

// A release was acknowledged whose entry had been deleted long before. That is one
// violation, of this client, and none of the client that was granted next.
func TestReplayReportsOnlyTheClientThatReliedOnADeletedEntry(t *testing.T) {
	queue := history.Queue{Name: "queue", Recipe: history.Mutex}
	order := []history.Change{
		{At: 1, Kind: history.Joined, Place: 1, Seen: 12},
		{At: 2, Kind: history.Joined, Place: 2, Seen: 17},
		{At: 3, Kind: history.Left, Place: 1, Seen: 25},
		{At: 4, Kind: history.Left, Place: 2, Seen: 45},
	}
	first := history.Attempt{Client: 1, Queue: "queue", Asked: 10, Got: 20, Held: 22, Back: 40, Done: 50, Outcome: history.Released, Place: 1}
	next := history.Attempt{Client: 2, Queue: "queue", Asked: 15, Got: 30, Held: 35, Back: 41, Done: 51, Outcome: history.Released, Place: 2}

	found := history.Replay(queue, order, []history.Attempt{first, next}, always)

	assert.Equal(t, []history.Violation{{
		Property: "S1", Oracle: "replay", Queue: "queue",
		Text: "client 1 relied on its entry 1 for 15ns after the entry had been seen to be gone",
	}}, found)

	first.Stopped = true
	assert.Empty(t, history.Replay(queue, order, []history.Attempt{first, next}, always))
}

// TestOnlyStallsOfItsOwnTimeExcuseALeftover: a stall at another time of a long history does
// not, whether a client recorded the entry or not.
func TestOnlyStallsOfItsOwnTimeExcuseALeftover(t *testing.T) {
	queue := history.Queue{Name: "m", Recipe: history.Mutex}
	a := history.Attempt{
		Queue: "m", Client: 1, Asked: 1 * second, Got: 2 * second, Held: 3 * second,
		Back: 4 * second, Done: 5 * second, Outcome: history.Released, Token: 1, Place: 1,
	}
	left := history.Instant(8 * second)
	for _, place := range []int64{1, 2} {
		a.Token, a.Place = place, place
		order := []history.Change{{At: 1, Kind: history.Joined, Place: 1, Seen: 1500 * millisecond}, {At: 3, Kind: history.Left, Place: 1, Seen: left}}
		if place == 2 { // the first entry is that of an earlier attempt of the same call
			a.Got, a.Held, a.Back, a.Done = 5*second, 6*second, 7*second, left
			order = append(order, history.Change{At: 4, Kind: history.Joined, Place: 2, Seen: left}, history.Change{At: 5, Kind: history.Left, Place: 2, Seen: left})
		}
		for _, c := range []struct{ from, to history.Instant }{{0, 1 * second}, {6 * second, 8 * second}} {
			stalled := func(over, to history.Instant) time.Duration { // between from and to
				return grace + time.Duration(max(0, min(to, c.to)-max(over, c.from)))
			}

			found := history.Replay(queue, order, []history.Attempt{a}, stalled)

			s5 := slices.ContainsFunc(found, func(v history.Violation) bool { return v.Property == "S5" })
			assert.Equal(t, c.to < 5*second, s5, "entry %d, stalled from %d s: %v", place, c.from/second, found)
		}
	}
}

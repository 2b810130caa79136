package ui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/schema"
)

// queueOf is the answer to a read of a queue with a holder, and a waiter that holds another
// lock.
func queueOf(name, holder, waiter, held string, at time.Time) answer {
	return answer{
		name: name, at: at, ok: true,
		queue: schema.Queue{Name: name, Entries: []schema.Entry{
			{State: "holder", Mode: "exclusive", Token: int64(len(name)), Host: holder, Session: holder},
			{State: "waiter", Mode: "exclusive", Token: int64(10 + len(name)), Host: waiter, Session: waiter, Holds: []string{held}},
		}},
		cards: []card{{ID: name + "1", Holder: true, Token: "1"}, {ID: name + "2", Token: "2"}},
	}
}

// TestChangesWhileWaitsRestAreNotForgotten: the last change of a deadlock, and of its end,
// comes while the search for waits rests, and nothing changes after it.
func TestChangesWhileWaitsRestAreNotForgotten(t *testing.T) {
	now := time.Now()
	b := newBoard()
	tick := func(answers ...answer) tickMsg {
		now = now.Add(time.Second)
		m := tickMsg{}
		b.take(answers, &m, now)
		return m
	}
	rest := func() { b.waiting.next = now.Add(90 * time.Second) }
	over := func() { b.waiting.next = now }

	both := func() []answer { return []answer{queueOf("x", "a", "b", "yy", now), queueOf("yy", "b", "a", "x", now)} }
	rest()
	m := tick(both()...)
	require.Nil(t, m.Waits, "it rests")
	over()
	m = tick()
	require.NotNil(t, m.Waits, "a tick without a change")
	assert.Len(t, m.Waits.Links, 2)
	assert.Empty(t, m.Waits.Deadlocks, "no queue was read again")
	over()
	m = tick(both()[0])
	assert.Nil(t, m.Waits, "one was read again")
	assert.Equal(t, map[string]bool{"yy": true}, b.waiting.doubt)
	over()
	m = tick(both()[1])
	require.NotNil(t, m.Waits, "both were, without a change")
	assert.Len(t, m.Waits.Deadlocks, 1)

	rest()
	m = tick(answer{name: "yy", at: now, ok: true, gone: true})
	require.Nil(t, m.Waits)
	over()
	m = tick()
	require.NotNil(t, m.Waits)
	assert.Empty(t, m.Waits.Deadlocks)
	m = tick()
	assert.Nil(t, m.Waits)
}

// TestEntriesWithoutTimesAgeFromTheFirstRead: programs such as Curator record none.
func TestEntriesWithoutTimesAgeFromTheFirstRead(t *testing.T) {
	b := newBoard()
	read := func(at int64, cards ...card) []card {
		b.take([]answer{{name: "x", at: time.UnixMilli(at), ok: true, cards: cards}}, &tickMsg{}, time.UnixMilli(at))
		return b.locks["x"].cards
	}
	holder, waiter, ours := card{ID: "a", Holder: true}, card{ID: "b"}, card{ID: "c", Asked: 1}
	granted := waiter
	granted.Holder = true

	read(1000, holder, waiter, ours)
	all := read(2000, holder, waiter, ours)
	assert.Equal(t, []int64{1000, 1000, 0}, []int64{all[0].Seen, all[1].Seen, all[2].Seen})
	all = read(3000, granted, ours)
	assert.Equal(t, int64(3000), all[0].Seen, "it waited before")
	all = read(4000, granted, ours)
	assert.Equal(t, int64(3000), all[0].Seen)
}

// TestAHoldAgesBeforeItsGrantIsRecorded: that is a second after the grant, or never where the
// service refuses the record.
func TestAHoldAgesBeforeItsGrantIsRecorded(t *testing.T) {
	b := newBoard()
	seen := func(at int64, c card) int64 {
		b.take([]answer{{name: "x", at: time.UnixMilli(at), ok: true, cards: []card{c}}}, &tickMsg{}, time.UnixMilli(at))
		return b.locks["x"].cards[0].Seen
	}
	waiter := card{ID: "a", Asked: 1}
	holder := waiter
	holder.Holder = true
	recorded := holder
	recorded.Granted = 1500

	assert.Zero(t, seen(1000, waiter))
	assert.Equal(t, int64(2000), seen(2000, holder))
	assert.Equal(t, int64(2000), seen(3000, holder))
	assert.Zero(t, seen(4000, recorded))
}

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

	rest()
	m := tick(queueOf("x", "a", "b", "yy", now), queueOf("yy", "b", "a", "x", now))
	require.Nil(t, m.Waits, "it rests")
	over()
	m = tick()
	require.NotNil(t, m.Waits, "a tick without a change")
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

// TestAnEvictionOfUnknownOutcomeIsForgotten: an entry that is released much later was not
// evicted.
func TestAnEvictionOfUnknownOutcomeIsForgotten(t *testing.T) {
	held := []card{{ID: "id", Holder: true, Token: "1"}}
	for after, end := range map[time.Duration]string{comeback: endEvicted, comeback + time.Second: endGone} {
		h := newHistory()
		h.saw("x", nil, held, 0)
		h.evicted["id"] = 0

		h.saw("x", held, nil, after.Milliseconds())

		assert.Equal(t, end, h.of("x")[0].End, after)
	}
}

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/internal/schema"
)

func TestEvictSelectsTheEntryThatTheFlagsName(t *testing.T) {
	one := schema.Queue{Name: "x", Holders: 1, Waiters: 2, Entries: []schema.Entry{
		{State: schema.Holder, Place: 1, Token: 12}, {State: schema.Waiter, Place: 2, Token: 15}, {State: schema.Waiter, Place: 3, Token: 19},
	}}
	two := schema.Queue{Name: "x", Holders: 2, Entries: []schema.Entry{
		{State: schema.Holder, Place: 1, Token: 12}, {State: schema.Holder, Place: 2, Token: 15},
	}}
	none := schema.Queue{Name: "x", Waiters: 1, Entries: []schema.Entry{{State: schema.Waiter, Place: 1, Token: 12}}}
	for _, c := range []struct {
		queue schema.Queue
		k     evictFlags
		want  int
		err   string
		code  int
	}{
		{one, evictFlags{holder: true}, 0, "", 0},
		{one, evictFlags{token: 12}, 0, "", 0},
		{one, evictFlags{token: 19}, 2, "", 0},
		{one, evictFlags{waiter: 2}, 1, "", 0},
		{one, evictFlags{waiter: 1}, 0, `place 1 of "x" is a holder's, and no waiter's: to evict that, use --token 12`, exit.Usage},
		{one, evictFlags{waiter: 4}, 0, `there is no place 4 in the queue of "x", which has 3`, exit.NoSuchName},
		{one, evictFlags{waiter: -1}, 0, `there is no place -1 in the queue of "x", which has 3`, exit.NoSuchName},
		{one, evictFlags{token: 13}, 0, `no entry of "x" has token 13: it has gone, or never existed`, exit.NoSuchName},
		{two, evictFlags{holder: true}, 0, `2 holders of "x": select one with --token 12 or 15`, exit.Usage},
		{none, evictFlags{holder: true}, 0, `"x" has no holder`, exit.NoSuchName},
	} {
		i, err := c.k.find(c.queue)

		assert.Equal(t, c.want, i)
		if c.err == "" {
			require.NoError(t, err)
			continue
		}
		var e *exit.Error
		require.ErrorAs(t, err, &e, "%+v", c.k)
		assert.Equal(t, c.err, e.Error())
		assert.Equal(t, c.code, e.Code)
	}
}

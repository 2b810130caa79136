package history_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/robustness/history"
)

// counter is a resource that checks tokens, unless it is open.
type counter struct {
	open    bool
	highest int64
	value   int64
	read    map[int64]int64
	touches []history.Touch
}

// touch reads for a holder, or writes one more than the holder has read.
func (c *counter) touch(client int, token int64, write bool) {
	t := history.Touch{Client: client, Token: token, Write: write, Refused: token < c.highest && !c.open}
	switch {
	case t.Refused && write:
		t.Value = c.read[token] + 1
	case t.Refused:
	case write:
		t.Value = c.read[token] + 1
		c.value = t.Value
	default:
		t.Value = c.value
		c.read[token] = c.value
	}
	c.highest = max(c.highest, token)
	c.touches = append(c.touches, t)
}

// touched returns the touches of 60 holders in turn. Some of them sleep between reading
// and writing, while the next ones are granted.
func touched(seed uint64, open bool) []history.Touch {
	rng := rand.New(rand.NewPCG(seed, 3))
	c := &counter{open: open, read: make(map[int64]int64)}
	asleep := int64(0)
	for token := int64(1); token <= 60; token++ {
		c.touch(int(token%7), token, false)
		if asleep == 0 && rng.IntN(4) == 0 {
			asleep = token
			continue
		}
		c.touch(int(token%7), token, true)
		if asleep != 0 && rng.IntN(3) == 0 {
			c.touch(int(asleep%7), asleep, true)
			asleep = 0
		}
	}
	return c.touches
}

func TestFenceFindsPlantedDefects(t *testing.T) {
	accepted := func(t history.Touch) bool { return !t.Refused }
	for _, c := range []struct {
		name  string
		plant func([]history.Touch) []history.Touch
	}{
		{"lost update", func(all []history.Touch) []history.Touch {
			i := 40 + slices.IndexFunc(all[40:], func(t history.Touch) bool { return t.Write && accepted(t) })
			all[i].Value--
			return all
		}},
		{"stale write accepted", func(all []history.Touch) []history.Touch {
			i := slices.IndexFunc(all, func(t history.Touch) bool { return t.Refused })
			all[i].Refused = false
			return all
		}},
		{"stale read accepted", func(all []history.Touch) []history.Touch {
			return append(all, history.Touch{Client: 1, Token: 1, Value: valueOf(all)})
		}},
		{"reads do not raise the fence", func(all []history.Touch) []history.Touch {
			return append(all,
				history.Touch{Client: 1, Token: 100, Value: valueOf(all)},
				history.Touch{Client: 2, Token: 99, Write: true, Value: valueOf(all) + 1})
		}},
		{"newest refused", func(all []history.Touch) []history.Touch {
			return append(all, history.Touch{Client: 1, Token: 100, Refused: true})
		}},
		{"old value read", func(all []history.Touch) []history.Touch {
			return append(all, history.Touch{Client: 1, Token: 100, Value: valueOf(all) - 1})
		}},
		{"writer below a reader", func(all []history.Touch) []history.Touch {
			return append(all,
				history.Touch{Client: 1, Token: 100, Shared: true, Value: valueOf(all)},
				history.Touch{Client: 2, Token: 99, Value: valueOf(all)})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(50) {
				found, _ := history.Fence("counter", c.plant(touched(seed, false)))
				assert.NotEmpty(t, found, "seed %d", seed)
			}
		})
	}
}

// valueOf returns the last value that was written.
func valueOf(all []history.Touch) int64 {
	for _, t := range slices.Backward(all) {
		if t.Write && !t.Refused {
			return t.Value
		}
	}
	return 0
}

func TestFenceCountsUpdatesThatAnOpenResourceLoses(t *testing.T) {
	refused := 0
	for seed := range uint64(200) {
		fenced := touched(seed, false)
		open := touched(seed, true)

		found, counts := history.Fence("fenced", fenced)
		_, really := history.Fence("open", open)

		require.Empty(t, found, "seed %d", seed)
		require.Zero(t, counts.Lost)
		refused += counts.Refused
		require.Equal(t, really.Lost, counts.Unfenced, "seed %d", seed)
	}
	require.NotZero(t, refused)
}

func TestSharedTokensMayComeInAnyOrder(t *testing.T) {
	found, counts := history.Fence("counter", []history.Touch{
		{Client: 1, Token: 4},
		{Client: 1, Token: 4, Write: true, Value: 1},
		{Client: 2, Token: 9, Shared: true, Value: 1},
		{Client: 3, Token: 7, Shared: true, Value: 1},
		{Client: 4, Token: 3, Shared: true, Refused: true},
		{Client: 5, Token: 8, Refused: true},
		{Client: 5, Token: 12, Value: 1},
		{Client: 5, Token: 12, Write: true, Value: 2},
	})

	assert.Empty(t, found)
	assert.Equal(t, history.ResourceCounts{Accepted: 6, Refused: 2, Writes: 2}, counts)
}

// Without tokens nothing is refused, and updates are lost.
func TestLostUpdatesWithoutTokens(t *testing.T) {
	found, counts := history.Fence("counter", []history.Touch{
		{Client: 1, Value: 0},
		{Client: 2, Value: 0},
		{Client: 2, Write: true, Value: 1},
		{Client: 1, Write: true, Value: 1},
	})

	assert.Len(t, found, 1)
	assert.Equal(t, history.ResourceCounts{Accepted: 4, Writes: 2, Lost: 1, Unfenced: 1}, counts)
}

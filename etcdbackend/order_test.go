package etcdbackend

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOrderIsSureAfterAnAnswer(t *testing.T) {
	var o order
	assert.True(t, o.wantsAnswer(), "nothing is known of a new stream")
	o.ask()
	assert.False(t, o.wantsAnswer())
	o.answer(1)
	assert.True(t, o.ok)

	for range orderAsk - 1 {
		assert.False(t, o.message())
	}
	assert.False(t, o.wantsAnswer())
	o.message()
	assert.True(t, o.wantsAnswer())
}

func TestOrderIsLostWithoutAnswers(t *testing.T) {
	var o order
	o.ask()
	o.answer(0)
	lost := 0
	for range 3 * orderStale {
		if o.message() {
			lost++
		}
	}
	assert.Equal(t, 1, lost, "it is told once")
	assert.False(t, o.ok)
}

func TestOrderDoesNotTrustAnAnswerFromAFullChannel(t *testing.T) {
	var o order
	o.ask()
	for range orderSlack + 1 {
		o.message()
	}
	o.answer(0)
	assert.False(t, o.ok)
}

// A server with a channel of 128 places, a client at any speed, and answers
// that are dropped now and then: while order is sure, nothing was set aside.
func TestOrderIsNeverSureWhenTheChannelOverflowed(t *testing.T) {
	const places = 128
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not a secret
	sure := 0
	for range 300 {
		var o order
		var channel []int // numbers of the events in it, -1 is an answer
		requests := 0     // on their way to the server
		events, overflowed := 0, -1
		o.ask()
		requests++
		burst := rng.IntN(200) + 1
		for range 3000 {
			switch r := rng.IntN(burst + 20); {
			case r < burst/2+5:
				events++
				if len(channel) < places {
					channel = append(channel, events)
				} else {
					overflowed = events // told later, behind newer ones
				}
			case r < burst/2+8 && requests > 0:
				requests--
				// Not answered while one is set aside; the server catches up later.
				if len(channel) < places && rng.IntN(10) > 0 {
					channel = append(channel, -1)
				}
			case len(channel) > 0:
				next := channel[0]
				channel = channel[1:]
				if next < 0 {
					o.answer(0)
				} else {
					o.message()
					if o.ok {
						sure++
						require.False(t, overflowed >= 0 && overflowed < next && overflowed > next-places/8,
							"event %d is trusted, but %d was set aside before it (seed %d)", next, overflowed, seed)
					}
				}
				if o.wantsAnswer() {
					o.ask()
					requests++
				}
			}
		}
	}
	assert.Positive(t, sure)
}

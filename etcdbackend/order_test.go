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
	o.answer(1, 1)
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
	o.answer(0, 1)
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
	o.answer(0, 1)
	assert.False(t, o.ok)
}

// A busy stream at some distance, whose server drops many requests: each answer comes
// when fewer messages than orderSlack have come since its request.
func TestOrderRecoversFromDroppedRequests(t *testing.T) {
	var o order
	rev := int64(0)
	busy := func() {
		for range orderSlack - 2 {
			o.message()
			rev++
		}
	}
	for range 3 * orderSlack { // requests that were dropped
		o.ask()
		busy()
	}
	round := func() {
		o.ask()
		busy()
		o.answer(0, rev-1)
	}
	for range 2 * orderSlack {
		round()
		require.False(t, o.ok, "the answer may be to an older request")
	}
	require.True(t, o.wantsCreation())

	o.created(creation{rev: rev, sent: o.sent})
	assert.False(t, o.wantsCreation())
	o.answer(0, rev)
	assert.False(t, o.ok, "it may be to a request from before the creation")
	round()
	assert.True(t, o.ok)
	assert.Empty(t, o.asked)
}

// server is the part of etcd that order reasons about.
type server struct {
	channel  []int      // numbers of the events in it, an answer's less than 1
	aside    []int      // events that found it full
	requests []int      // on their way: 0 for progress, else one more than were asked before a creation
	created  []creation // notices that go past the channel
	events   int
}

// step does one thing that the server may do next.
func (s *server) step(rng *rand.Rand) {
	const places = 128
	room := len(s.channel) < places
	switch n := rng.IntN(12); {
	case n == 0 && len(s.requests) > 0:
		r := s.requests[0]
		s.requests = s.requests[1:]
		switch {
		case r > 0:
			s.created = append(s.created, creation{rev: int64(s.events) + 1, sent: r - 1})
		case room && len(s.aside) == 0: // else it is not answered
			s.channel = append(s.channel, -s.events)
		}
	case n == 1 && room && len(s.aside) > 0:
		s.channel = append(s.channel, s.aside[0])
		s.aside = s.aside[1:]
	case n > 1:
		s.events++
		if room {
			s.channel = append(s.channel, s.events)
		} else {
			s.aside = append(s.aside, s.events)
		}
	}
}

// late says that an event from before n has not been told yet.
func (s *server) late(n int) bool {
	for _, e := range append(s.aside, s.channel...) {
		if e > 0 && e < n {
			return true
		}
	}
	return false
}

func TestOrderIsNeverSureAcrossAnOverflow(t *testing.T) {
	seed := rand.Uint64() //nolint:gosec // not a secret
	rng := rand.New(rand.NewPCG(seed, 0))
	sure, overflows := 0, 0
	for range 200 {
		var o order
		s := server{requests: []int{0}}
		o.ask()
		for range 100 { // phases in which the client reads slower or faster than the server tells
			slow := rng.IntN(4) > 0
			for range rng.IntN(200) {
				if !slow || rng.IntN(3) == 0 {
					s.step(rng)
				}
				if len(s.channel) == 0 || (slow == (rng.IntN(8) > 0)) {
					s.step(rng)
					continue
				}
				next := s.channel[0]
				s.channel = s.channel[1:]
				if next <= 0 {
					o.answer(0, int64(-next)+1)
				} else if o.message(); o.ok {
					sure++
					require.False(t, s.late(next), "event %d is trusted, an earlier one is not told (seed %d)", next, seed)
				} else if s.late(next) {
					overflows++
				}
				if o.wantsAnswer() {
					o.ask()
					s.requests = append(s.requests, 0)
				}
				if rng.IntN(20) == 0 {
					s.requests = append(s.requests, o.sent+1)
				}
				if len(s.created) > 0 && rng.IntN(3) == 0 {
					o.created(s.created[0])
					s.created = s.created[1:]
				}
			}
		}
	}
	assert.Positive(t, sure)
	assert.Positive(t, overflows)
	t.Logf("sure %d, overflows %d", sure, overflows)
}

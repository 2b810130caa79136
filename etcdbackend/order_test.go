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

// server is the part of etcd that order reasons about.
type server struct {
	channel  []int // numbers of the events in it, 0 is an answer
	aside    []int // events that found it full
	requests int   // progress requests on their way
	events   int
}

// step does one thing that the server may do next.
func (s *server) step(rng *rand.Rand) {
	const places = 128
	room := len(s.channel) < places
	switch n := rng.IntN(12); {
	case n == 0 && s.requests > 0:
		s.requests--
		if room && len(s.aside) == 0 { // else it is not answered
			s.channel = append(s.channel, 0)
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
		if e != 0 && e < n {
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
		s := server{requests: 1}
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
				if next == 0 {
					o.answer(0)
				} else if o.message(); o.ok {
					sure++
					require.False(t, s.late(next), "event %d is trusted, an earlier one is not told (seed %d)", next, seed)
				} else if s.late(next) {
					overflows++
				}
				if o.wantsAnswer() {
					o.ask()
					s.requests++
				}
			}
		}
	}
	assert.Positive(t, sure)
	assert.Positive(t, overflows)
	t.Logf("sure %d, overflows %d", sure, overflows)
}

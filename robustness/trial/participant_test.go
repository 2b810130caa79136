package trial

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// fakeClient is a client whose answers the test chooses.
type fakeClient struct {
	Client
	acquire func(ctx context.Context, req Request) (Hold, error)
}

func (c *fakeClient) Acquire(ctx context.Context, _ history.Queue, req Request) (Hold, error) {
	return c.acquire(ctx, req)
}

// TestANestedRequestThatFailsBreaksL1 unless the hold is over, or the caller's context.
func TestANestedRequestThatFailsBreaksL1(t *testing.T) {
	for _, c := range []struct {
		name string
		over func(p *participant, h *fakeHold)
		l1   bool
	}{
		{"inside a hold", func(*participant, *fakeHold) {}, true},
		{"after the end of the hold", func(_ *participant, h *fakeHold) { close(h.done) }, false},
		{"after the end of its context", func(p *participant, _ *fakeHold) { p.end() }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &fakeHold{done: make(chan struct{})}
				var p *participant
				p = newParticipant(0, &fakeClient{acquire: func(_ context.Context, req Request) (Hold, error) {
					if req.Within == nil {
						return h, nil
					}
					c.over(p, h)
					return nil, errors.New("refused")
				}}, history.Queue{Name: "queue", Recipe: history.Reentrant}, nil, Request{}, 0)
				p.start()
				<-p.done
				r := Result{Lock: Ours}
				for _, a := range p.attempts() {
					r.judgeReturn(a, false, stallMeter{new(metronome.Metronome)})
				}

				assert.Equal(t, c.l1, len(r.Violations) == 1, "%v", r.Violations)
			})
		})
	}
}

// TestAWakeupThatWasLostBreaksL1: the waiter reads the queue again after 7.5 s, and the script
// may look before that or after it.
func TestAWakeupThatWasLostBreaksL1(t *testing.T) {
	for _, c := range []struct {
		kind            string
		looked, granted time.Duration
		l1              bool
	}{
		{"waiter-cut", 3 * time.Second, 3 * time.Second, false}, // is about the longest that was measured
		{"waiter-cut", 5 * time.Second, 0, true},
		{"waiter-cut", 8 * time.Second, 7500 * time.Millisecond, true},
		{"leader-killed", 7 * time.Second, 6 * time.Second, false},
	} {
		p := newParticipant(1, nil, history.Queue{}, nil, Request{}, 0)
		tr := &trial{kind: find(c.kind), meter: stallMeter{new(metronome.Metronome)}}
		since := Now() - history.Instant(c.looked)
		if c.granted != 0 {
			p.a = history.Attempt{Asked: since, Got: since + history.Instant(c.granted)}
			close(p.got)
		}

		tr.awaitGrant(t.Context(), p, since)

		assert.Equal(t, c.l1, len(tr.Violations) == 1, "%s %s: %v", c.kind, c.granted, tr.Violations)
	}
}

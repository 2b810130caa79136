package trial

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/internal/tcpproxy"
	"github.com/fairlock/fairlock/robustness/history"
)

func (c *fakeClient) Heal()                     {}
func (c *fakeClient) Traffic() tcpproxy.Traffic { return tcpproxy.Traffic{} }
func (c *fakeClient) Close() error              { return nil }

// abandoned returns a trial of two participants that are to be abandoned: a holder, and a head
// waiter whose client is given.
func abandoned(t *testing.T, head *fakeClient) *trial {
	t.Helper()
	tr := &trial{
		kind: find("holder-cut"), lock: Ours, queue: history.Queue{Name: "queue", Recipe: history.Mutex},
		meter: stallMeter{new(metronome.Metronome)}, Result: Result{Lock: Ours},
	}
	holder := &fakeClient{acquire: func(context.Context, Request) (Hold, error) {
		return &fakeHold{token: 1, done: make(chan struct{})}, nil
	}}
	for i, c := range []*fakeClient{holder, head} {
		p := newParticipant(i, c, tr.queue, nil, Request{Weight: 1, Quiet: true}, -1)
		tr.participants = append(tr.participants, p)
		p.start()
		<-p.got
	}
	return tr
}

// TestASetUpThatIsRepeatedIsJudged has the head waiter be granted while the holder holds, and
// fail, before the fault.
func TestASetUpThatIsRepeatedIsJudged(t *testing.T) {
	defer goleak.VerifyNone(t)
	early := abandoned(t, &fakeClient{acquire: func(context.Context, Request) (Hold, error) {
		return &fakeHold{token: 2, done: make(chan struct{})}, nil
	}})
	early.abandon(t.Context())
	assert.Contains(t, properties(early), "S1")

	fails := abandoned(t, &fakeClient{acquire: func(context.Context, Request) (Hold, error) {
		return nil, errors.New("refused")
	}})
	fails.abandon(t.Context())
	assert.Equal(t, []string{"L1"}, properties(fails))

	gone := abandoned(t, &fakeClient{acquire: func(context.Context, Request) (Hold, error) {
		return nil, errors.New("refused")
	}})
	gone.participants[1].a.Ends = 1 // as if its context had ended
	gone.abandon(t.Context())
	assert.Empty(t, properties(gone))
}

// fixedQueue is a service with a queue that does not change, or cannot be read.
type fixedQueue struct {
	Service
	entries []string
	err     error
	reads   []history.Instant
}

func (s *fixedQueue) Entries(context.Context, string, string) ([]string, error) {
	s.reads = append(s.reads, Now())
	return s.entries, s.err
}

// TestOnlyALateReadShowsALeftover: of a queue with an entry, of one that nobody can read, and
// of an empty one.
func TestOnlyALateReadShowsALeftover(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*Poll)
	defer cancel()
	meter := stallMeter{new(metronome.Metronome)}

	entries, err := leftIn(t.Context(), &fixedQueue{}, Ours, "queue", meter)
	assert.NoError(t, err)
	assert.Empty(t, entries)

	_, err = leftIn(ctx, &fixedQueue{entries: []string{"entry"}}, Ours, "queue", meter)
	assert.Error(t, err, "no read was late enough")

	left := &fixedQueue{entries: []string{"entry"}}
	began := Now()
	entries, err = leftIn(t.Context(), left, Ours, "queue", meter)
	assert.NoError(t, err)
	assert.Equal(t, []string{"entry"}, entries)
	assert.Greater(t, left.reads[len(left.reads)-1], began+history.Instant(leftoverTime))

	tr := &trial{svc: &fixedQueue{entries: []string{"entry"}, err: errors.New("no leader")}}
	tr.checkEmpty(ctx)
	assert.Empty(t, tr.Violations)
	assert.True(t, tr.unreadable)
}

// TestAStoppedHolderMustBeNotifiedAfterItResumes has its process report nothing, an answer
// without a notice, and both.
func TestAStoppedHolderMustBeNotifiedAfterItResumes(t *testing.T) {
	for _, c := range []struct {
		name string
		a    history.Attempt
		err  error
		l2   bool
		hit  bool
	}{
		{"told", history.Attempt{Over: 1, Told: 2}, nil, false, true},
		{"dead", history.Attempt{}, errors.New("no process"), false, false},
		{"silent", history.Attempt{Over: 1}, nil, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tr := &trial{}

			tr.awaitNotice(t.Context(), func(context.Context) (history.Attempt, error) { return c.a, c.err })

			assert.Equal(t, c.l2, len(tr.Violations) == 1)
			assert.Equal(t, c.hit, tr.Hit())
		})
	}
}

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

// shrinkingQueue is a service with one queue of three entries, which are replaced by
// others at a given time.
type shrinkingQueue struct {
	Service
	gone history.Instant
	slow time.Duration // each read takes this long
	then []string      // the entries from gone on
}

func (s *shrinkingQueue) Entries(context.Context, string, string) ([]string, error) {
	at := Now()
	time.Sleep(s.slow)
	if s.gone <= at {
		return s.then, nil
	}
	return []string{"holder", "entry", "last"}, nil
}

// TestAnEntryThatLeavesLaterWasNotEnded has an entry leave at once, also where reading
// the queue is slow, and then much later.
func TestAnEntryThatLeavesLaterWasNotEnded(t *testing.T) {
	for _, c := range []struct {
		name       string
		goes, slow time.Duration
		then       []string
		hit        bool
	}{
		{"at once", 0, time.Millisecond, []string{"holder", "last"}, true},
		{"soon", promptly / 2, time.Millisecond, []string{"holder", "last"}, true},
		{"at once, read slowly", 0, 3 * promptly, []string{"holder", "last"}, true},
		{"and joins again", 0, time.Millisecond, []string{"holder", "last", "entry"}, true},
		{"and joins again, and the last one has held", 0, time.Millisecond, []string{"holder", "entry"}, true},
		{"with its session", 3 * TTL, time.Millisecond, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := &trial{svc: &shrinkingQueue{gone: Now() + history.Instant(c.goes), slow: c.slow, then: c.then}, meter: stallMeter{new(metronome.Metronome)}}

			err := tr.leavesAtOnce(t.Context(), 1, []string{"holder", "entry", "last"})

			assert.Equal(t, c.hit, err == nil, "%v", err)
		})
	}
}

// refusing is a service with one entry that it does not delete.
type refusing struct{ Service }

func (refusing) Entries(context.Context, string, string) ([]string, error) {
	return []string{"entry"}, nil
}
func (refusing) Delete(context.Context, string) error { return errors.New("refused") }

// passedOn is a hold whose release is reported.
type passedOn struct {
	*fakeHold
	released chan struct{}
}

func (h passedOn) Release(context.Context) (history.Outcome, error) {
	close(h.released)
	return history.Released, nil
}

// TestAFaultThatWasRefusedBreaksNothing: the holder still holds, and the head waiter waits.
func TestAFaultThatWasRefusedBreaksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &trial{
			kind: find("holder-entry-deleted"), svc: refusing{}, lock: Ours, queue: history.Queue{Name: "queue", Recipe: history.Mutex},
			meter: stallMeter{new(metronome.Metronome)}, Result: Result{Lock: Ours},
		}
		released := make(chan struct{})
		hold := func(token int64, released chan struct{}) Hold {
			return passedOn{&fakeHold{token: token, done: make(chan struct{})}, released}
		}
		for i, acquire := range []func(context.Context, Request) (Hold, error){
			func(context.Context, Request) (Hold, error) { return hold(1, released), nil },
			func(context.Context, Request) (Hold, error) { <-released; return hold(2, make(chan struct{})), nil },
		} {
			p := newParticipant(i, &fakeClient{acquire: acquire}, tr.queue, nil, Request{Weight: 1, Quiet: true}, -1)
			tr.participants = append(tr.participants, p)
			p.start()
		}
		<-tr.holder().got

		deleteHolderEntry(t.Context(), tr)

		assert.NotEmpty(t, tr.Missed)
		assert.Empty(t, properties(tr))
		assert.NotZero(t, tr.head().attempt().Got)
	})
}

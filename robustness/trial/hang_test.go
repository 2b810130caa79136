package trial

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// hangingClient returns a client whose calls ignore their context, until free is closed.
func hangingClient(free chan struct{}) *fakeClient {
	return &fakeClient{acquire: func(ctx context.Context, _ Request) (Hold, error) {
		<-free
		return nil, ctx.Err()
	}}
}

// TestACallThatHangsIsJudged by the trial, which ends without it.
func TestACallThatHangsIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		tr := &trial{kind: find("holder-cut"), lock: Ours, queue: history.Queue{Name: "queue", Recipe: history.Mutex}, Result: Result{Lock: Ours}}
		p := newParticipant(5, hangingClient(free), tr.queue, nil, Request{Weight: 1}, 0)
		tr.participants = []*participant{p}
		p.start()

		assert.False(t, tr.awaitEnds(t.Context()))
		tr.close(t.Context())
		tr.collect(nil)
		a := tr.History.Attempts[0]
		tr.judgeReturn(a, false, stallMeter{new(metronome.Metronome)})
		found, _ := judgeHistory(tr.History, stallMeter{new(metronome.Metronome)}, leftoverTime, history.Attempt{}, 0)

		assert.Equal(t, []string{"S6", "S6", "S6"}, properties(tr), "from its context, from Close, from its record")
		assert.Equal(t, 5, a.Client)
		assert.Empty(t, found)
		assert.Zero(t, tr.Grants)
		close(free)
		<-p.done
	})
}

// TestACallThatHangsEndsTheSoak has the only worker of a soak hang until the end.
func TestACallThatHangsEndsTheSoak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		queue := history.Queue{Name: "queue", Recipe: history.Mutex}
		s := &soak{
			r: New(nil, Ours, 1), rng: rand.New(rand.NewPCG(1, 1)), queues: []history.Queue{queue}, resources: []*Resource{nil},
			stop: make(chan struct{}), meter: stallMeter{new(metronome.Metronome)},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.work(ctx, &worker{c: hangingClient(free)})
		}()
		synctest.Wait()
		cancel()
		close(s.stop)
		<-done

		assert.Len(t, s.hanging, 1)
		assert.Len(t, s.attempts, 1)
		close(free)
		synctest.Wait()
	})
}

// TestARequestWithoutAnEntryBreaksL1 has a queue of three entries, where four requests wait,
// after a reply was lost. A set-up that ends for another reason is only repeated.
func TestARequestWithoutAnEntryBreaksL1(t *testing.T) {
	for _, c := range []struct {
		name    string
		lost    bool
		entries int
		found   []string
	}{
		{"lost", true, 3, []string{"L1"}},
		{"not lost", false, 3, []string{}},
		{"repeated", true, 4, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &trial{
					kind: &kind{process: true, four: true}, svc: &fixedQueue{entries: make([]string, c.entries)},
					lost: func() bool { return c.lost },
				}
				for i := range 4 {
					tr.participants = append(tr.participants, newParticipant(i, nil, history.Queue{}, nil, Request{}, 0))
				}

				err := tr.awaitAllEntries(t.Context())

				assert.Equal(t, c.entries < 4, err != nil)
				assert.Equal(t, c.found, properties(tr))
			})
		})
	}
}

// TestAnEntryThatHasLostItsPlaceEndsTheSetUp: all joined, and one joins again behind the others
// before those that are early have left.
func TestAnEntryThatHasLostItsPlaceEndsTheSetUp(t *testing.T) {
	for name, c := range map[string]struct {
		entries []string
		kept    bool
	}{
		"kept":    {[]string{"holder", "head", "last"}, true},
		"lost":    {[]string{"head", "last", "holder again"}, false},
		"swapped": {[]string{"holder", "last", "head again"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			holder := newParticipant(0, nil, history.Queue{}, nil, Request{}, 0)
			holder.monitor = &Monitor{}
			close(holder.got)
			tr := &trial{
				kind: &kind{}, svc: &fixedQueue{entries: c.entries}, crowded: true,
				participants: []*participant{holder, newParticipant(1, nil, history.Queue{}, nil, Request{}, 0)},
				joined:       []string{"early 1", "early 2", "holder", "head", "last"},
				early:        []*participant{newParticipant(10, nil, history.Queue{}, nil, Request{}, 0), newParticipant(11, nil, history.Queue{}, nil, Request{}, 0)},
			}

			err := tr.endEarly(t.Context())

			assert.Equal(t, c.kept, err == nil, "%v", err)
		})
	}
}

package trial

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// campaigns has a candidate of generation g lead once for each of terms: after start, it leads until it has
// handed over, or is released.
func campaigns(t *testing.T, id int, g int64, terms ...time.Duration) *participant {
	t.Helper()
	acquire := func(ctx context.Context, req Request) (Hold, error) {
		for i, start := range terms {
			await(t.Context(), nil, start)
			h := &fakeHold{done: make(chan struct{}), token: int64(10*id + i + 1)}
			h.held.Store(true)
			work, end := context.WithTimeout(ctx, time.Second)
			req.Lead(work, h, func() bool { return true })
			end()
			h.held.Store(false)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return newParticipant(id, &fakeClient{acquire: acquire}, history.Queue{Name: "queue", Recipe: history.Mutex}, nil, Request{Weight: 1, Generation: g}, -1)
}

// TestTwoLeadersBreakS1 has the newer candidate lead after the work of the older one, and before its end.
func TestTwoLeadersBreakS1(t *testing.T) {
	for _, c := range []struct {
		newer time.Duration
		found bool
	}{{1100 * time.Millisecond, false}, {1020 * time.Millisecond, true}} {
		synctest.Test(t, func(t *testing.T) {
			older, newer := campaigns(t, 0, 1, 0), campaigns(t, 1, 2, c.newer)
			h := &History{Queues: []history.Queue{older.queue}}
			for _, p := range []*participant{older, newer} {
				p.start()
			}
			await(t.Context(), nil, 3*time.Second)
			for _, p := range []*participant{older, newer} {
				p.end()
				<-p.done
				h.Attempts = append(h.Attempts, p.attempts()...)
			}

			found, _ := judgeHistory(h, stallMeter{new(metronome.Metronome)}, leftoverTime, history.Attempt{}, 0)

			assert.Equal(t, c.found, slices.ContainsFunc(found, func(v history.Violation) bool { return v.Property == "S1" }), "%v", found)
			assert.Equal(t, c.found, len(found) > 0, "%v", found)
		})
	}
}

// TestASecondHandOverToAGenerationBreaksL1 has a leader hand over twice, and two leaders once.
func TestASecondHandOverToAGenerationBreaksL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := campaigns(t, 0, 1, 0, time.Second)
		p.start()
		<-p.again
		await(t.Context(), nil, 2*time.Second)
		p.end()
		<-p.done
		all := p.attempts()
		assert.Len(t, all, 3, "two leaderships, and a campaign that the end of its context ends")
		tr, once := &trial{}, &trial{}

		tr.judgeHandsOver(all)
		once.judgeHandsOver([]history.Attempt{all[0], all[2], {Client: 1, HandsOver: 1}})

		assert.Equal(t, []string{"L1"}, properties(tr))
		assert.Empty(t, once.Violations)
	})
}

// TestALeaderThatHasResignedNeedsNoMargin when its entry is gone, but one that goes on does.
func TestALeaderThatHasResignedNeedsNoMargin(t *testing.T) {
	for back, found := range map[history.Instant][]string{at(-time.Millisecond): {}, at(time.Second): {"L2"}} {
		tr := &trial{lock: Ours, svc: margins{margin: time.Second}, meter: stallMeter{new(metronome.Metronome)}}

		tr.judgeGone(history.Attempt{Told: at(-20 * time.Millisecond), Back: back}, history.Attempt{}, at(0))

		assert.Equal(t, found, properties(tr), back)
	}
}

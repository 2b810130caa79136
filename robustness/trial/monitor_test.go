package trial

import (
	"cmp"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/robustness/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeHold is a hold whose answers the test sets.
type fakeHold struct {
	token int64 // 0 is 7
	held  atomic.Bool
	asked atomic.Int64
	done  chan struct{}
}

func (h *fakeHold) Token() int64          { return cmp.Or(h.token, 7) }
func (h *fakeHold) Place() int64          { return h.Token() }
func (h *fakeHold) Entry() string         { return "entry" }
func (h *fakeHold) Held() bool            { h.asked.Add(1); return h.held.Load() }
func (h *fakeHold) Done() <-chan struct{} { return h.done }

func (h *fakeHold) Release(context.Context) (history.Outcome, error) { return history.Released, nil }

func TestMonitorRecordsWhatTheHoldReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHold{done: make(chan struct{})}
		h.held.Store(true)
		begin := Now()
		m := StartMonitor(h, history.Attempt{Client: 3}, false)
		wait := func() { // for a few answers
			<-time.After(3 * Poll)
			synctest.Wait()
		}
		wait()
		held := m.Attempt()
		h.held.Store(false)
		wait()
		over := m.Attempt()
		close(h.done)
		wait()
		notified := m.Attempt()
		h.held.Store(true)
		wait()
		lied := m.Attempt()
		released := m.Release(t.Context())

		assert.GreaterOrEqual(t, held.Held, begin)
		assert.Zero(t, held.Over)
		assert.False(t, held.Told != 0)
		assert.GreaterOrEqual(t, over.Over, over.Held)
		assert.NotZero(t, over.Over)
		assert.Zero(t, over.Lied)
		assert.NotZero(t, notified.Told)
		assert.NotZero(t, lied.Lied, "it reports that it holds, after it has reported that it does not")
		assert.GreaterOrEqual(t, lied.Held, lied.Lied)
		assert.Equal(t, history.Released, released.Outcome)
		assert.GreaterOrEqual(t, released.Done, released.Back)
		assert.Equal(t, 3, released.Client)
	})
}

// TestQuietMonitorAsksNothingUntilItIsTold: a question would end a session whose deadline
// has passed, so it would hide a timer that does not.
func TestQuietMonitorAsksNothingUntilItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHold{done: make(chan struct{})}
		h.held.Store(true)
		m := StartMonitor(h, history.Attempt{}, true)
		wait := func() { // for a few answers
			<-time.After(3 * Poll)
			synctest.Wait()
		}
		wait()
		assert.Zero(t, h.asked.Load())
		assert.Zero(t, m.Attempt().Held)
		close(h.done)
		wait()
		told := m.Leave()

		assert.NotZero(t, told.Told)
		assert.Greater(t, told.Held, told.Told, "a hold that reports \"held\" after its end is seen (S1')")
	})
}

func TestQuietMonitorEndsWithTheRelease(t *testing.T) {
	h := &fakeHold{done: make(chan struct{})}
	a := StartMonitor(h, history.Attempt{}, true).Release(t.Context())

	assert.Equal(t, history.Released, a.Outcome)
	assert.Zero(t, h.asked.Load())
}

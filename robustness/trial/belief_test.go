package trial

import (
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

// fakeHold is a hold that says what it is told to say.
type fakeHold struct {
	held atomic.Bool
	told chan struct{}
}

func (h *fakeHold) Token() int64          { return 7 }
func (h *fakeHold) Place() int64          { return 7 }
func (h *fakeHold) Entry() string         { return "entry" }
func (h *fakeHold) Held() bool            { return h.held.Load() }
func (h *fakeHold) Told() <-chan struct{} { return h.told }

func (h *fakeHold) Release(context.Context) (history.Outcome, error) { return history.Released, nil }

func TestABeliefRecordsWhatTheHoldHasSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHold{told: make(chan struct{})}
		h.held.Store(true)
		begin := Now()
		b := Believe(h, history.Attempt{Client: 3})
		wait := func() { // for a few answers
			<-time.After(3 * Poll)
			synctest.Wait()
		}
		wait()
		held := b.Attempt()
		h.held.Store(false)
		wait()
		over := b.Attempt()
		close(h.told)
		wait()
		told := b.Attempt()
		h.held.Store(true)
		wait()
		lied := b.Attempt()
		released := b.Release(t.Context())

		assert.GreaterOrEqual(t, held.Held, begin)
		assert.Zero(t, held.Over)
		assert.False(t, held.Told != 0)
		assert.GreaterOrEqual(t, over.Over, over.Held)
		assert.NotZero(t, over.Over)
		assert.Zero(t, over.Lied)
		assert.NotZero(t, told.Told)
		assert.NotZero(t, lied.Lied, "it says that it holds, after it has said that it does not")
		assert.GreaterOrEqual(t, lied.Held, lied.Lied)
		assert.Equal(t, history.Released, released.Outcome)
		assert.GreaterOrEqual(t, released.Done, released.Back)
		assert.Equal(t, 3, released.Client)
	})
}

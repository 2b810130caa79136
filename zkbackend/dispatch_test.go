package zkbackend

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// flushed begins a flush, and ends the test's bubble with it.
func flushed(ctx context.Context, d *dispatcher) <-chan bool {
	told := make(chan bool, 1)
	go func() { told <- d.flush(ctx) }()
	synctest.Wait()
	return told
}

func TestAFlushWaitsForWhatWasPostedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		d := dispatcher{over: over}
		var called []string
		slow, later := make(chan struct{}), make(chan struct{})
		d.post(func() {
			<-slow
			called = append(called, "slow")
		})
		synctest.Wait() // the rest is another batch
		d.post(func() { called = append(called, "behind it") })
		told := flushed(t.Context(), &d)
		d.post(func() { <-later })
		assert.Empty(t, told, "an answer must not overtake")

		close(slow)
		assert.True(t, <-told, "and waits for nothing that came after it")
		assert.Equal(t, []string{"slow", "behind it"}, called)
		close(later)
		d.wait()
	})
}

func TestAFlushOfWhatIsIdleTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher{over: make(chan struct{})}
		d.post(func() {})
		synctest.Wait()
		assert.True(t, d.flush(t.Context()))
		assert.Zero(t, testing.AllocsPerRun(100, func() { d.flush(t.Context()) }))
		d.wait()
		assert.False(t, d.flush(t.Context()), "nothing is told any more")
	})
}

func TestAFlushEndsWithItsContextAndWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, stuck := make(chan struct{}), make(chan struct{})
		d := dispatcher{over: over}
		d.post(func() { <-stuck })
		ctx, cancel := context.WithCancel(t.Context())
		told := flushed(ctx, &d)
		cancel()
		assert.False(t, <-told, "it cannot say that everything was told")

		told = flushed(t.Context(), &d)
		close(over)
		assert.False(t, <-told)
		assert.False(t, d.flush(t.Context()))
		close(stuck)
		d.wait()
	})
}

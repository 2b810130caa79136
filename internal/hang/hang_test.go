package hang

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// failing is a test that records its failure.
type failing struct {
	testing.TB
	failure string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns with what a test fails that calls f, and after which time.
func failure(t *testing.T, f func(testing.TB)) (text string, after time.Duration) {
	t.Helper()
	began, fails := time.Now(), &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(fails)
	}()
	<-done
	return fails.failure, time.Since(began)
}

func TestAnEventEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, c := time.Now(), make(chan int, 1)
		time.AfterFunc(Guard-time.Second, func() { c <- 7 })

		Until(t, func() bool { return len(c) > 0 }, "no value")
		assert.Equal(t, 7, Receive(t, c, "no value"))

		assert.LessOrEqual(t, time.Since(began), Guard-time.Second+every)
		require.NoError(t, Context(t).Err())
	})
}

func TestWhatHangsFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, hangs := range map[string]func(testing.TB){
			"until":   func(tb testing.TB) { Until(tb, func() bool { return false }, "no %s", "value") },
			"receive": func(tb testing.TB) { Receive(tb, make(chan int), "no %s", "value") },
		} {
			text, after := failure(t, hangs)

			assert.Equal(t, "hang: not in 5m0s: no value", text, name)
			assert.InDelta(t, Guard, after, float64(2*every), name)
		}
	})
}

func TestContextsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		short, long := Ending(t, time.Second), Context(t)

		<-short.Done()
		assert.Equal(t, time.Second, time.Since(began))
		<-long.Done()
		assert.Equal(t, Guard, time.Since(began))
		assert.ErrorContains(t, context.Cause(long), "hang")
	})
}

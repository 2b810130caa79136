// Package hang ends tests that hang, and nothing else. A test on real servers or processes
// waits for an event; how long the event takes depends more on the machine than on the code.
// So no test has a bound of its own for that: [Guard] is one for all, which only code
// that hangs reaches. Where a short time is the claim, package metronome measures it.
package hang

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Guard is how long a test waits for an event. The slowest event of a test takes some
// seconds on an idle machine, and a minute on one that has ten other programs per core.
const Guard = 5 * time.Minute

// every is the time between two checks of [Until].
const every = 5 * time.Millisecond

// Context returns a context that ends with the test, and with [Guard].
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), Guard, fmt.Errorf("hang: nothing has ended this in %v", Guard))
	t.Cleanup(cancel)
	return ctx
}

// Until blocks until ok returns true, and fails the test after [Guard]. It calls ok in the
// goroutine of the test. The format and its arguments describe what did not happen; they are
// read after Guard, so a Stringer shows the last state.
func Until(t testing.TB, ok func() bool, format string, args ...any) {
	t.Helper()
	for end := time.Now().Add(Guard); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("hang: not in %v: %s", Guard, fmt.Sprintf(format, args...))
		}
		<-time.After(every)
	}
}

// Receive returns the next value of a channel, or the zero value of a closed one. It fails
// the test after [Guard].
func Receive[T any](t testing.TB, c <-chan T, format string, args ...any) T {
	t.Helper()
	guard := time.NewTimer(Guard)
	defer guard.Stop()
	select {
	case v := <-c:
		return v
	case <-guard.C:
		t.Fatalf("hang: not in %v: %s", Guard, fmt.Sprintf(format, args...))
		panic("Fatalf has returned")
	}
}

// Ending returns a context that ends after d, or with the test. It is for a test of what a
// call does when its context ends while it waits. The test must not need anything to happen
// within d: a slow machine may take longer for each step.
func Ending(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

package onzk_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/trial"
)

// soon bounds what takes milliseconds on an idle machine.
const soon = 30 * time.Second

// service is what all tests share.
var service *onzk.Service

func TestMain(m *testing.M) {
	if code, isChild := trial.Child(map[string]trial.Opener{onzk.Name: onzk.Open}); isChild {
		os.Exit(code)
	}
	goleak.VerifyTestMain(served{m})
}

// served has the service run while the tests do.
type served struct{ *testing.M }

func (m served) Run() int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*soon)
	defer cancel()
	var err error
	if service, err = onzk.Start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.M.Run()
	if err := service.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, soon, 5*time.Millisecond, what)
}

var lines atomic.Int64

// newLine is a line that no other test uses.
func newLine(recipe history.Recipe) history.Line {
	return history.Line{Name: fmt.Sprint("line", lines.Add(1)), Recipe: recipe, Limit: 3}
}

func newClient(t *testing.T, lock string, members ...int) trial.Client {
	t.Helper()
	c, err := service.Client(within(t), lock, members...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func acquire(t *testing.T, c trial.Client, line history.Line, ask trial.Request) trial.Hold {
	t.Helper()
	h, err := c.Acquire(within(t), line, ask)
	require.NoError(t, err)
	return h
}

func release(t *testing.T, h trial.Hold) {
	t.Helper()
	outcome, err := h.Release(within(t))
	require.NoError(t, err)
	require.Equal(t, history.Given, outcome)
}

func entries(t *testing.T, lock string, line history.Line) []string {
	t.Helper()
	all, err := service.Entries(within(t), lock, line.Name)
	require.NoError(t, err)
	return all
}

// lined waits until there are so many entries.
func lined(t *testing.T, lock string, line history.Line, n int) {
	t.Helper()
	eventually(t, "entries", func() bool { return len(entries(t, lock, line)) == n })
}

// asked is a request that goes on beside the test.
type asked struct {
	hold trial.Hold
	err  error
}

func request(t *testing.T, c trial.Client, line history.Line, ask trial.Request) chan asked {
	ctx := within(t)
	answer := make(chan asked, 1)
	go func() { // ends with ctx
		h, err := c.Acquire(ctx, line, ask)
		answer <- asked{h, err}
	}()
	return answer
}

func granted(t *testing.T, a chan asked) trial.Hold {
	t.Helper()
	r := <-a
	require.NoError(t, r.err)
	return r.hold
}

// told waits until a hold has been told of its end.
func told(t *testing.T, h trial.Hold) {
	t.Helper()
	select {
	case <-h.Done():
	case <-within(t).Done():
		require.Fail(t, "not told")
	}
	require.False(t, h.Held())
}

// each runs a test for the locks that hear of losses.
func each(t *testing.T, test func(t *testing.T, lock string)) {
	for _, lock := range []string{trial.Ours, onzk.Stock} {
		t.Run(lock, func(t *testing.T) { test(t, lock) })
	}
}

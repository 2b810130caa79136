package onzk_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/trial"
)

// service is shared by all tests; see on.
var service *onzk.Service

func TestMain(m *testing.M) {
	if code, isChild := trial.Child(map[string]trial.Opener{onzk.Name: onzk.Open}); isChild {
		os.Exit(code)
	}
	goleak.VerifyTestMain(withService{m})
}

// withService runs the service while the tests run.
type withService struct{ *testing.M }

func (m withService) Run() int {
	var err error
	if service, err = onzk.Start(context.Background(), onzk.NIO); err != nil {
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

// on runs the rest of a test on another service, which has a transport.
func on(t *testing.T, transport string) {
	t.Helper()
	shared := service
	other, err := onzk.Start(within(t), transport)
	require.NoError(t, err)
	service = other
	t.Cleanup(func() {
		service = shared
		assert.NoError(t, other.Close())
	})
}

func within(t *testing.T) context.Context {
	t.Helper()
	return hang.Context(t)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	hang.Until(t, ok, "%s", what)
}

var queues atomic.Int64

// newQueue returns a queue that no other test uses.
func newQueue(recipe history.Recipe) history.Queue {
	return history.Queue{Name: fmt.Sprint("queue", queues.Add(1)), Recipe: recipe, Limit: 3}
}

func newClient(t *testing.T, lock string, members ...int) trial.Client {
	t.Helper()
	c, err := service.Client(within(t), lock, members...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func acquire(t *testing.T, c trial.Client, queue history.Queue, req trial.Request) trial.Hold {
	t.Helper()
	h, err := c.Acquire(within(t), queue, req)
	require.NoError(t, err)
	return h
}

func release(t *testing.T, h trial.Hold) {
	t.Helper()
	outcome, err := h.Release(within(t))
	require.NoError(t, err)
	require.Equal(t, history.Released, outcome)
}

func entries(t *testing.T, lock string, queue history.Queue) []string {
	t.Helper()
	all, err := service.Entries(within(t), lock, queue.Name)
	require.NoError(t, err)
	return all
}

// awaitEntries waits until there are n entries.
func awaitEntries(t *testing.T, lock string, queue history.Queue, n int) {
	t.Helper()
	eventually(t, "entries", func() bool { return len(entries(t, lock, queue)) == n })
}

// result is the result of a request that runs while the test goes on.
type result struct {
	hold trial.Hold
	err  error
}

func request(t *testing.T, c trial.Client, queue history.Queue, req trial.Request) chan result {
	ctx := within(t)
	answer := make(chan result, 1)
	go func() { // ends with ctx
		h, err := c.Acquire(ctx, queue, req)
		answer <- result{h, err}
	}()
	return answer
}

func granted(t *testing.T, a chan result) trial.Hold {
	t.Helper()
	r := <-a
	require.NoError(t, r.err)
	return r.hold
}

// awaitDone waits until the holder is notified that its hold is over.
func awaitDone(t *testing.T, h trial.Hold) {
	t.Helper()
	select {
	case <-h.Done():
	case <-within(t).Done():
		require.Fail(t, "not notified")
	}
	require.False(t, h.Held())
}

// each runs a test for the locks of the service that notify their holders.
func each(t *testing.T, test func(t *testing.T, lock string)) {
	for _, lock := range service.Locks() {
		if lock == onzk.StockCareless {
			continue
		}
		t.Run(lock, func(t *testing.T) { test(t, lock) })
	}
}

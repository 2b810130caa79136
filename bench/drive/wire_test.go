package drive

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/bench/memstand"
	"github.com/fairlock/fairlock/bench/stand"
)

// startWorker starts a worker in this process. closeInput ends its input, as the end of the
// program would, and ended receives the result of Serve.
func startWorker(t *testing.T) (w *Worker, closeInput func(), ended <-chan error) {
	t.Helper()
	s, err := memstand.Service().Attach(t.Context(), stand.Addresses{})
	require.NoError(t, err)
	requests, in := io.Pipe()
	out, answers := io.Pipe()
	over := make(chan error, 1)
	go func() {
		err := Serve(context.Background(), s, requests, answers)
		over <- errors.Join(err, s.Close())
		answers.Close()
	}()
	closeInput = func() { in.Close() }
	t.Cleanup(closeInput)
	return NewWorker(in, out), closeInput, over
}

func opening(alone bool, n int) Opening {
	return Opening{Contestant: stand.Contestant{Name: "x", Ours: true, Alone: alone}, N: n, Clients: 1}
}

// Every job has the same result in a worker as in this process, except for the times.
func TestWorkerDoesEveryJob(t *testing.T) {
	w, closeInput, ended := startWorker(t)
	c, err := w.Open(t.Context(), opening(true, 4))
	require.NoError(t, err)
	do := func(j Job) Result {
		t.Helper()
		r, err := c.Do(t.Context(), j)
		require.NoError(t, err)
		assert.Positive(t, r.Elapsed)
		return r
	}

	assert.Len(t, do(Job{Name: "cycles", Cycles: 5}).Took, 5)
	do(Job{Name: "repeat", Repeat: 20})
	turns := do(Job{Name: "churn", Churn: 20 * time.Millisecond, Pause: time.Millisecond}).Turns
	require.Len(t, turns.All, 4)
	assert.NotContains(t, turns.All, 0)
	assert.Len(t, turns.Steady, 4)
	assert.Zero(t, turns.Unordered)
	line := do(Job{Name: "line", Line: &Line{Waiters: 3, Settle: time.Millisecond}}).Line
	assert.Len(t, line.HandOffs, 3)
	assert.Positive(t, line.Elapsed)
	reader := Recipe{Kind: ReadLock}
	do(Job{Name: "free", Free: &Free{Holders: Group{N: 6, In: 3, Lock: reader}, Times: 2}})
	do(Job{Name: "gather", Gather: &Sharing{
		Holders: Group{N: 1}, Waiters: Group{N: 3, Lock: Recipe{Kind: Mutex}}, Releases: 2, LetIn: 1,
	}})
	do(Job{Name: "wait", Wait: &Wait{Waiters: 3, Settle: time.Millisecond}})

	require.NoError(t, c.Close(t.Context()))
	closeInput()
	require.NoError(t, <-ended)
}

func TestWorkerKeepsCrewsApart(t *testing.T) {
	w, _, _ := startWorker(t)
	one, err := w.Open(t.Context(), opening(true, 1))
	require.NoError(t, err)
	many, err := w.Open(t.Context(), opening(false, 3))
	require.NoError(t, err)

	require.NoError(t, one.Close(t.Context()))
	r, err := many.Do(t.Context(), Job{Name: "n", Churn: time.Millisecond})
	require.NoError(t, err)
	assert.Len(t, r.Turns.All, 3)
	_, err = one.Do(t.Context(), Job{Name: "n", Cycles: 1})
	require.EqualError(t, err, "crew 1 is not open")
}

func TestErrorOfAJobIsReturned(t *testing.T) {
	w, _, _ := startWorker(t)
	c, err := w.Open(t.Context(), opening(true, 1))
	require.NoError(t, err)

	_, err = c.Do(t.Context(), Job{Name: "n"})
	require.EqualError(t, err, errNoJob.Error())
	_, err = c.Do(t.Context(), Job{Name: strings.Repeat("n", 600), Cycles: 1})
	require.Error(t, err)
	_, err = c.Do(t.Context(), Job{Name: "n", Cycles: 1})
	require.NoError(t, err, "the worker goes on")
}

// A worker ends with the program that drives it, in the middle of a job too.
func TestWorkerCancelsItsJobWhenItsInputEnds(t *testing.T) {
	w, closeInput, ended := startWorker(t)
	c, err := w.Open(t.Context(), opening(true, 2))
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Do(context.Background(), Job{Name: "n", Churn: time.Hour})
		failed <- err
	}()
	for w.mu.TryLock() { // until the request is under way
		w.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond)

	closeInput()

	require.NoError(t, <-ended)
	require.Error(t, <-failed)
}

func TestRequestToAWorkerThatEndedIsAnError(t *testing.T) {
	requests, in := io.Pipe()
	out, answers := io.Pipe()
	w := NewWorker(in, out)
	requests.Close()
	answers.Close()

	_, err := w.Open(t.Context(), opening(true, 1))
	require.ErrorContains(t, err, "the worker does not answer")
}

func TestMalformedRequestEndsAWorker(t *testing.T) {
	s, err := memstand.Service().Attach(t.Context(), stand.Addresses{})
	require.NoError(t, err)
	in, requests := io.Pipe()
	go func() { _, _ = io.WriteString(requests, "hello\n") }()

	require.ErrorContains(t, Serve(t.Context(), s, in, io.Discard), "read a request")
	require.NoError(t, s.Close())
}

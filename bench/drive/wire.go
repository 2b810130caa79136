package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/fairlock/fairlock/bench/stand"
)

// Serve is a worker: it opens crews on a stand and lets them do jobs, one request at a time. It
// reads requests from in and writes answers to out, as JSON values. When in ends, it cancels
// what it is doing and returns, so that a worker ends with the program that drives it.
func Serve(ctx context.Context, s stand.Stand, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requests := make(chan request)
	var failed error
	go func() { // ends when in ends
		defer close(requests)
		defer cancel()
		for d := json.NewDecoder(in); ; {
			var r request
			failed = d.Decode(&r)
			if failed != nil {
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	w := server{s: s, crews: map[int]Crew{}}
	encoder := json.NewEncoder(out)
	var err error
	for r := range requests {
		err = encoder.Encode(w.answer(ctx, r))
		if err != nil {
			break
		}
	}
	for _, c := range w.crews {
		err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	if err == nil && !errors.Is(failed, io.EOF) {
		err = fmt.Errorf("read a request: %w", failed)
	}
	return err
}

// request opens a crew, gives it a job, or, with neither, closes it.
type request struct {
	Crew int
	Open *Opening `json:",omitempty"`
	Job  *Job     `json:",omitempty"`
}

type answer struct {
	Result Result
	Error  string `json:",omitempty"`
}

// server is the state of a worker.
type server struct {
	s     stand.Stand
	crews map[int]Crew
}

func (w *server) answer(ctx context.Context, r request) answer {
	var (
		a   answer
		err error
	)
	crew := w.crews[r.Crew]
	switch {
	case r.Open != nil:
		crew, err = Local(ctx, w.s, *r.Open)
		if err == nil {
			w.crews[r.Crew] = crew
		}
	case crew == nil:
		err = fmt.Errorf("crew %d is not open", r.Crew)
	case r.Job != nil:
		a.Result, err = crew.Do(ctx, *r.Job)
	default:
		delete(w.crews, r.Crew)
		err = crew.Close(ctx)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// A Worker sends requests to Serve. After an error of the connection every request returns that
// error.
type Worker struct {
	in  *json.Encoder
	out *json.Decoder

	mu     sync.Mutex // one request at a time
	opened int
	failed error
}

// NewWorker returns a Worker for a process that reads requests from in and writes answers to out.
// The process, and a request that it is working on, end when in is closed.
func NewWorker(in io.Writer, out io.Reader) *Worker {
	return &Worker{in: json.NewEncoder(in), out: json.NewDecoder(out)}
}

// Open opens a crew in the worker.
func (w *Worker) Open(ctx context.Context, o Opening) (Crew, error) {
	w.mu.Lock()
	w.opened++
	c := &remote{w, w.opened}
	w.mu.Unlock()
	if _, err := w.ask(ctx, request{Crew: c.crew, Open: &o}); err != nil {
		return nil, err
	}
	return c, nil
}

func (w *Worker) ask(ctx context.Context, r request) (Result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	var a answer
	if w.failed == nil {
		w.failed = w.in.Encode(r)
	}
	if w.failed == nil {
		w.failed = w.out.Decode(&a)
	}
	if w.failed != nil {
		return Result{}, fmt.Errorf("the worker does not answer: %w", errors.Join(w.failed, ctx.Err()))
	}
	if a.Error != "" {
		return Result{}, errors.New(a.Error)
	}
	return a.Result, nil
}

// remote is a crew in a worker.
type remote struct {
	w    *Worker
	crew int
}

// Do implements Crew.
func (c *remote) Do(ctx context.Context, j Job) (Result, error) {
	return c.w.ask(ctx, request{Crew: c.crew, Job: &j})
}

// Close implements Crew.
func (c *remote) Close(ctx context.Context) error {
	_, err := c.w.ask(ctx, request{Crew: c.crew})
	return err
}

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

// Serve is a worker: it opens crews on a stand and has them do their jobs, one request at a
// time. Requests come from in and answers go to out, as JSON values. It returns when in
// ends, and cancels what it is doing then: so a worker ends with the program that drives it.
func Serve(ctx context.Context, s stand.Stand, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requests := make(chan request)
	var broken error
	go func() { // ends when in does
		defer close(requests)
		defer cancel()
		for d := json.NewDecoder(in); ; {
			var r request
			if broken = d.Decode(&r); broken != nil {
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
		if err = encoder.Encode(w.answer(ctx, r)); err != nil {
			break
		}
	}
	for _, c := range w.crews {
		err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	if err == nil && !errors.Is(broken, io.EOF) {
		err = fmt.Errorf("read a request: %w", broken)
	}
	return err
}

// request is one of Open, Job and close, for the crew of that number.
type request struct {
	Crew int
	Open *Opening `json:",omitempty"`
	Job  *Job     `json:",omitempty"`
}

type answer struct {
	Result Result
	Error  string `json:",omitempty"`
}

// server is what a worker has open.
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
		if crew, err = Local(ctx, w.s, *r.Open); err == nil {
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

// A Worker is the other side of Serve. After an error of the connection every request has
// that error.
type Worker struct {
	in  *json.Encoder
	out *json.Decoder

	mu     sync.Mutex // one request at a time
	opened int
	broken error
}

// NewWorker drives a worker that reads its requests from in and writes its answers to out.
// The worker ends when in is closed; so does what a request is waiting for.
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
	if w.broken == nil {
		w.broken = w.in.Encode(r)
	}
	if w.broken == nil {
		w.broken = w.out.Decode(&a)
	}
	if w.broken != nil {
		return Result{}, fmt.Errorf("the worker does not answer: %w", errors.Join(w.broken, ctx.Err()))
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

// Package wire is what a worker process and the demonstration that started it
// say to each other: one JSON object per line, events up the worker's stdout,
// orders down its stdin. The end of stdin is the order to leave.
package wire

import (
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/stamp"
)

// Kind says what an event tells.
type Kind string

// The kinds of events.
const (
	// Ready: the session is open.
	Ready Kind = "ready"
	// Joined: a request has its place in the line.
	Joined Kind = "joined"
	// Granted: Lock has returned a hold. Before that nobody can act on it.
	Granted Kind = "granted"
	// Read: the ledger has answered the hold's first touch.
	Read Kind = "read"
	// Lost: a hold's context ended by itself, not by Unlock.
	Lost Kind = "lost"
	// Late: the hold is over, and the worker is about to write all the same.
	Late Kind = "late"
	// Released: the hold was given back. At is when Unlock was called.
	Released Kind = "released"
)

// Event is what a worker reports. Fields that do not apply are zero.
type Event struct {
	Kind  Kind          `json:"kind"`
	At    stamp.Stamp   `json:"at"`
	Token int64         `json:"token,omitempty"`
	Work  time.Duration `json:"work,omitempty"`  // Granted: how long the job will take
	Valid time.Duration `json:"valid,omitempty"` // Late: what Hold.Valid says, 0 if all is well
	Err   string        `json:"err,omitempty"`   // Lost, Late, Released: why
}

// Order is what a worker is told. Fields that are zero change nothing.
type Order struct {
	// Work is how long the job under every lock takes from now on, with some
	// jitter.
	Work time.Duration `json:"work,omitempty"`

	// Job is how long the next job takes, once, to the point.
	Job time.Duration `json:"job,omitempty"`

	// End ends the job under way, as if its time were over.
	End bool `json:"end,omitempty"`
}

// Writer writes objects to a pipe, each with one write, from any goroutine.
type Writer struct {
	mu  sync.Mutex
	enc *json.Encoder
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{enc: json.NewEncoder(w)} }

// Write writes one object. It waits for as long as the pipe is full.
func (w *Writer) Write(v any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.enc.Encode(v)
}

// Each reads objects from a pipe until it ends or holds something else, and
// calls f for each.
func Each[T any](r io.Reader, f func(T)) error {
	for dec := json.NewDecoder(r); ; {
		var v T
		switch err := dec.Decode(&v); {
		case err == nil:
			f(v)
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

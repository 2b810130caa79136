// Package wire defines the messages between a worker process and the demonstration that
// started it: one JSON object per line. Events go to the worker's stdout, orders to its
// stdin. The worker leaves when its stdin ends.
package wire

import (
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	// Ready: the session is open.
	Ready Kind = "ready"
	// Joined: a request has its place in the queue.
	Joined Kind = "joined"
	// Granted: Lock has returned a hold. Before that the worker cannot act on it.
	Granted Kind = "granted"
	// Read: the ledger has answered the first request of the hold.
	Read Kind = "read"
	// Lost: a hold's context ended by itself, not by Unlock.
	Lost Kind = "lost"
	// Late: the hold is over, and the worker is about to write although it is.
	Late Kind = "late"
	// Released: the hold was released. At is when Unlock was called.
	Released Kind = "released"
)

// Event is what a worker reports. Fields that do not apply are zero.
type Event struct {
	Kind  Kind          `json:"kind"`
	At    stamp.Stamp   `json:"at"`
	Token int64         `json:"token,omitempty"`
	Work  time.Duration `json:"work,omitempty"`  // Granted: how long the job will take
	Valid time.Duration `json:"valid,omitempty"` // Late: what Hold.Remaining returned, 0 if all is well
	Err   string        `json:"err,omitempty"`   // Lost, Late, Released: the reason
}

// Order is what the demonstration sends to a worker. Fields that are zero change nothing.
type Order struct {
	// Work is how long each job takes from now on, with some jitter.
	Work time.Duration `json:"work,omitempty"`

	// Job is how long the next job takes, without jitter.
	Job time.Duration `json:"job,omitempty"`

	// End ends the present job as if its time were over.
	End bool `json:"end,omitempty"`
}

// Writer writes objects to a pipe, each with one write. It may be used from any
// goroutine.
type Writer struct {
	mu  sync.Mutex
	enc *json.Encoder
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{enc: json.NewEncoder(w)} }

// Write writes one object. It blocks while the pipe is full.
func (w *Writer) Write(v any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.enc.Encode(v)
}

// Each calls f for every object that it reads from a pipe, until the pipe ends. It
// returns an error if the pipe contains something else.
func Each[T any](r io.Reader, f func(T)) error {
	for dec := json.NewDecoder(r); ; {
		var v T
		err := dec.Decode(&v)
		switch {
		case err == nil:
			f(v)
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

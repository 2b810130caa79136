// Package once keeps the record of finished work next to a lock's queue, for mutex.Once and
// for the command line.
package once

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/session"
)

const (
	// MaxKey is the most bytes of a key.
	MaxKey = 256

	// Kept is how many runs a record has, at most. A new run then replaces the oldest one.
	Kept = 100
)

// Run is one finished piece of work, and the hold under which it was done.
type Run struct {
	Key   string    `json:"key"`
	Token int64     `json:"token"`
	Host  string    `json:"host,omitempty"`
	PID   int       `json:"pid,omitempty"`
	Time  time.Time `json:"time"` // by the clock of the holder
}

// recordV1 is the stored form, the oldest run first.
type recordV1 struct {
	V    int   `json:"v"`
	Runs []Run `json:"runs"`
}

// runs reads a record. One that is broken or of a later version is an error: it may contain
// the key, and work that was done must not be repeated for that reason.
func runs(record []byte) ([]Run, error) {
	if record == nil {
		return nil, nil
	}
	var r recordV1
	if err := json.Unmarshal(record, &r); err != nil {
		return nil, fmt.Errorf("%w: the record of finished work is broken: %w", session.ErrRefused, err)
	}
	if r.V != 1 {
		return nil, fmt.Errorf("%w: the record of finished work has version %d, want 1", session.ErrRefused, r.V)
	}
	return r.Runs, nil
}

// add returns the record with one more run, which replaces one with the same key.
func add(record []byte, run Run) ([]byte, error) {
	all, err := runs(record)
	if err != nil {
		return nil, err
	}
	all = append(slices.DeleteFunc(all, func(r Run) bool { return r.Key == run.Key }), run)
	b, err := json.Marshal(recordV1{V: 1, Runs: all[max(0, len(all)-Kept):]})
	if err != nil { // strings, numbers and a time of our own clock
		return nil, fmt.Errorf("encode the record of finished work: %w", err)
	}
	return b, nil
}

// CheckKey returns an error that wraps session.ErrInvalidOptions if that cannot be a key.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: the key is empty", session.ErrInvalidOptions)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: the key has %d bytes, at most %d are allowed", session.ErrInvalidOptions, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: the key is not UTF-8", session.ErrInvalidOptions)
	}
	return nil
}

// Find returns the run with that key under the named lock, and false if there is none.
func Find(ctx context.Context, s *session.Session, name, key string) (Run, bool, error) {
	record, err := queue.Done(ctx, s, name)
	if err != nil {
		return Run{}, false, err //nolint:wrapcheck // the backend names what it read
	}
	all, err := runs(record)
	if i := slices.IndexFunc(all, func(r Run) bool { return r.Key == key }); i >= 0 {
		return all[i], true, nil
	}
	return Run{}, false, err
}

// Add records that the work with that key is finished, if the hold still holds. ctx
// must end with the hold.
func Add(ctx context.Context, s *session.Session, h *session.Hold, key string) error {
	clock := queue.Core().Of(s).Clock()
	run := Run{Key: key, Token: int64(h.Token()), PID: os.Getpid(), Time: clock.Wall().UTC()}
	run.Host, _ = os.Hostname() // for people only
	var bad error
	err := queue.MarkDone(ctx, s, h, func(record []byte) (after []byte) {
		after, bad = add(record, run)
		return after
	})
	if bad != nil {
		return bad
	}
	return err //nolint:wrapcheck // the backend names what it wrote
}

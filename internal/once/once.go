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

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
)

const (
	// MaxKey is the most bytes of a key.
	MaxKey = 256

	// Kept is how many of the newest runs a record keeps, whatever their age, if there is room
	// for them. It keeps every run that is younger than the caller wants.
	Kept = 1000

	// DefaultFor is how long a record keeps a run at least, if the caller does not set that.
	DefaultFor = 15 * time.Minute

	// maxRecord is the most bytes of a record: a quarter of what ZooKeeper takes in a request.
	// A run has about 80 bytes and its key. Each new run writes the whole record.
	maxRecord = 256 << 10

	// described is how many of the newest runs have a host and a process.
	described = 100
)

// Run is one finished piece of work, and the hold under which it was done.
type Run struct {
	Key   string    `json:"key"`
	Token int64     `json:"token"`
	Host  string    `json:"host,omitempty"`
	PID   int       `json:"pid,omitempty"`
	Time  time.Time `json:"time"` // by the clock of the holder, in seconds
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

// add returns the record with one more run, which replaces one with the same key. It leaves out
// runs that are older than keepFor, the first ones first, if the record is too long with them. If
// it is too long without them too, add returns an error that wraps session.ErrRefused.
func add(record []byte, run Run, keepFor time.Duration) ([]byte, error) {
	all, err := runs(record)
	if err != nil {
		return nil, err
	}
	all = append(slices.DeleteFunc(all, func(r Run) bool { return r.Key == run.Key }), run)
	for i := range all[:max(0, len(all)-described)] {
		all[i].Host, all[i].PID = "", 0
	}
	b, err := encode(all)
	if err != nil {
		return nil, err
	}
	before := len(all)
	n, size := before, len(b)
	all = slices.DeleteFunc(all, func(r Run) bool {
		forget := run.Time.Sub(r.Time) > keepFor && (n > Kept || size > maxRecord)
		if forget {
			one, _ := json.Marshal(r)
			n, size = n-1, size-len(one)-len(",")
		}
		return forget
	})
	if size > maxRecord {
		return nil, fmt.Errorf("%w: the record of finished work has no room for another key: it has %d keys of the last %s, none of which it may forget", session.ErrRefused, n-1, keepFor)
	}
	if n == before {
		return b, nil
	}
	return encode(all)
}

// encode returns the stored form.
func encode(all []Run) ([]byte, error) {
	b, err := json.Marshal(recordV1{V: 1, Runs: all})
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

// Find returns the run with that key under the named lock, and false if there is none. If there
// is none, the error also reports that the record has no room for it, see Add.
func Find(ctx context.Context, s *session.Session, name, key string, keepFor time.Duration) (Run, bool, error) {
	record, err := session.Engine(door.Key{}).Of(s).Done(ctx, name)
	if err != nil {
		return Run{}, false, err //nolint:wrapcheck // the backend names what it read
	}
	all, err := runs(record)
	i := slices.IndexFunc(all, func(r Run) bool { return r.Key == key })
	if i >= 0 {
		return all[i], true, nil
	}
	if err == nil {
		_, err = add(record, newRun(s, key), keepFor)
	}
	return Run{}, false, err
}

// newRun returns a run of this process that ends now.
func newRun(s *session.Session, key string) Run {
	host, _ := os.Hostname() // for people only
	return Run{Key: key, Host: host, PID: os.Getpid(), Time: session.Engine(door.Key{}).Of(s).Clock().Wall().UTC().Truncate(time.Second)}
}

// Add records that the work with that key is finished, if the hold still holds. ctx must end
// with the hold. The record keeps each run for keepFor; if it has no room for another one, the
// error wraps session.ErrRefused.
func Add(ctx context.Context, s *session.Session, h *session.Hold, key string, keepFor time.Duration) error {
	run := newRun(s, key)
	run.Token = int64(h.Token())
	var bad error
	err := session.Engine(door.Key{}).Hold(h).MarkDone(ctx, func(record []byte) (after []byte) {
		after, bad = add(record, run, keepFor)
		return after
	})
	if bad != nil {
		return bad
	}
	return err //nolint:wrapcheck // the backend names what it wrote
}

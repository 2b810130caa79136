// Package ledger is a small resource that protects itself: it knows nothing of
// locks, and refuses every fencing token that is lower than the highest it has
// seen, from the first touch on, reads included.
package ledger

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrStale is the answer to a token that is lower than one seen before.
var ErrStale = errors.New("token is stale")

// Entry is one write that was let in.
type Entry struct {
	Token   int64
	Who     string
	Balance int64
}

// Refusal is one touch that was not.
type Refusal struct {
	Token   int64
	Who     string
	Write   bool  // it was a write, not a read
	Highest int64 // the highest token seen by then
}

// Ledger keeps a balance. Who wants to change it reads it, works it out and
// writes the new one, so that an update is lost whenever two do so at once: a
// correct run ends with a balance that is the number of its writes. Its methods
// may be called from any goroutine.
type Ledger struct {
	mu      sync.Mutex
	highest int64
	entries []Entry
	refused []Refusal
}

// Read returns the balance.
func (l *Ledger) Read(token int64, who string) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(token, who, false); err != nil {
		return 0, err
	}
	return l.balance(), nil
}

// Write sets the balance.
func (l *Ledger) Write(token int64, who string, balance int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(token, who, true); err != nil {
		return err
	}
	l.entries = append(l.entries, Entry{Token: token, Who: who, Balance: balance})
	return nil
}

// admit is the whole of fencing. A read raises the mark too: otherwise a stale
// write could come between the read and the write of a newer holder, and that
// one would overwrite what it never saw.
func (l *Ledger) admit(token int64, who string, write bool) error {
	if token < l.highest {
		l.refused = append(l.refused, Refusal{Token: token, Who: who, Write: write, Highest: l.highest})
		return fmt.Errorf("ledger: %w: %d, and %d was here before", ErrStale, token, l.highest)
	}
	l.highest = token
	return nil
}

// balance is the newest one. The caller holds l.mu.
func (l *Ledger) balance() int64 {
	if n := len(l.entries); n > 0 {
		return l.entries[n-1].Balance
	}
	return 0
}

// Highest is the highest token seen.
func (l *Ledger) Highest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.highest
}

// Last returns the newest n entries, the newest last, and how many there are in
// all.
func (l *Ledger) Last(n int) ([]Entry, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries[max(0, len(l.entries)-n):]), len(l.entries)
}

// Refused returns all that was refused.
func (l *Ledger) Refused() []Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.refused)
}

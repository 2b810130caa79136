// Package ledger is a small resource that protects itself. It knows nothing of locks.
// It refuses every request, reads included, whose fencing token is lower than the
// highest that it has seen.
package ledger

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrStale is the error of a token that is lower than one seen before.
var ErrStale = errors.New("token is stale")

// Entry is one accepted write.
type Entry struct {
	Token   int64
	Worker  string
	Balance int64
}

// Refusal is one refused request.
type Refusal struct {
	Token   int64
	Worker  string
	Write   bool  // it was a write, not a read
	Highest int64 // the highest token seen until then
}

// Ledger keeps a balance. To change it, a worker reads it and writes a new one, so an
// update is lost whenever two workers do so at once. A correct run ends with a balance
// that equals the number of its writes. The methods may be called from any goroutine.
type Ledger struct {
	mu      sync.Mutex
	highest int64
	entries []Entry
	refused []Refusal
}

// Read returns the balance.
func (l *Ledger) Read(token int64, worker string) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(token, worker, false); err != nil {
		return 0, err
	}
	return l.balance(), nil
}

// Write sets the balance.
func (l *Ledger) Write(token int64, worker string, balance int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(token, worker, true); err != nil {
		return err
	}
	l.entries = append(l.entries, Entry{Token: token, Worker: worker, Balance: balance})
	return nil
}

// check is all that fencing needs. A read raises the highest token too: otherwise a
// stale write could come between the read and the write of a newer holder, which would
// then overwrite a balance that it has not read. The caller holds l.mu.
func (l *Ledger) check(token int64, worker string, write bool) error {
	if token < l.highest {
		l.refused = append(l.refused, Refusal{Token: token, Worker: worker, Write: write, Highest: l.highest})
		return fmt.Errorf("ledger: %w: %d, and %d was here before", ErrStale, token, l.highest)
	}
	l.highest = token
	return nil
}

// balance returns the newest balance. The caller holds l.mu.
func (l *Ledger) balance() int64 {
	n := len(l.entries)
	if n > 0 {
		return l.entries[n-1].Balance
	}
	return 0
}

// Highest returns the highest token seen.
func (l *Ledger) Highest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.highest
}

// Last returns the newest n entries, the newest last, and the number of all entries.
func (l *Ledger) Last(n int) ([]Entry, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries[max(0, len(l.entries)-n):]), len(l.entries)
}

// Refused returns all refusals.
func (l *Ledger) Refused() []Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.refused)
}

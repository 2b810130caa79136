package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/session/driver"
)

// What a reply begins with.
const (
	OK      = "OK"
	Life    = "LIFE"    // the data has another life than the caller's session
	Replica = "REPLICA" // the server takes no writes
	Over    = "OVER"    // there is no such session
	Old     = "OLD"     // the call was given up
	Taken   = "TAKEN"   // the queue was not empty
	Refused = "REFUSED" // the condition of a required op does not hold
	Gone    = "GONE"    // the entry is not there
	There   = "THERE"   // the root is in use
	Claimed = "CLAIMED" // the root is in quarantine
	Denied  = "DENIED"  // the login may not read
)

// A Reply is what a script has returned. A field that is not there is empty: a script and its reader
// are of one program.
type Reply []rueidis.RedisMessage

// At returns a field.
func (r Reply) At(i int) rueidis.RedisMessage {
	if i >= len(r) {
		return rueidis.RedisMessage{}
	}
	return r[i]
}

// Text returns a field as text.
func (r Reply) Text(i int) string {
	m := r.At(i)
	if s, err := m.ToString(); err == nil {
		return s
	}
	if n, err := m.ToInt64(); err == nil {
		return strconv.FormatInt(n, 10)
	}
	return ""
}

// Int returns a field as a number.
func (r Reply) Int(i int) int64 {
	m := r.At(i)
	if n, err := m.AsInt64(); err == nil {
		return n
	}
	return 0
}

// List returns a field that is a list.
func (r Reply) List(i int) Reply {
	m := r.At(i)
	all, err := m.ToArray()
	if err != nil {
		return nil
	}
	return all
}

// Texts returns the fields as texts.
func (r Reply) Texts() []string {
	var all []string
	for i := range r {
		all = append(all, r.Text(i))
	}
	return all
}

// Entry returns an entry from {place, header[, data[, detail]]}.
func (r Reply) Entry(queue string) (driver.Entry, error) {
	place, header := r.Int(0), r.Text(1)
	session, fields, _ := strings.Cut(header, " ")
	var numbers [5]int64 // mode, weight, valued, marks, changes
	whole := true
	for i, bits := range [...]int{8, 64, 8, 8, 64} {
		field, rest, more := strings.Cut(fields, " ")
		n, err := strconv.ParseInt(field, 10, 64)
		whole = whole && err == nil && more == (i < 4) && (bits == 64 || 0 <= n && n < 1<<bits)
		numbers[i], fields = n, rest
	}
	if !whole {
		return driver.Entry{}, fmt.Errorf("%w: entry %d of queue %q has the header %q", driver.ErrRefused, place, queue, header)
	}
	e := driver.Entry{
		Ref:  driver.Ref{Queue: queue, Key: Key(session, place), Place: place},
		Mode: driver.Mode(numbers[0]), Weight: numbers[1], Valued: numbers[2] == 1, Marks: driver.Marks(numbers[3]),
		Token: place, Session: session,
	}
	if len(r) > 2 {
		e.Data = []byte(r.Text(2))
	}
	if len(r) > 3 {
		e.Detail = []byte(r.Text(3))
	}
	return e, nil
}

// Entries returns the entries of a list.
func (r Reply) Entries(queue string) ([]driver.Entry, error) {
	var all []driver.Entry
	for i := range r {
		e, err := r.List(i).Entry(queue)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// Header returns the marks of an entry and how many changes it has had, or false for one that is gone.
func Header(header string) (marks driver.Marks, changes int64, there bool) {
	fields := strings.Fields(header)
	if len(fields) != 6 {
		return 0, 0, false
	}
	m, _ := strconv.ParseUint(fields[4], 10, 8)
	changes, _ = strconv.ParseInt(fields[5], 10, 64)
	return driver.Marks(m), changes, true
}

// Record returns a record from version:session:value; the zero one from "".
func Record(raw string) driver.Record {
	version, rest, ok := strings.Cut(raw, ":")
	_, value, _ := strings.Cut(rest, ":")
	n, err := strconv.ParseInt(version, 10, 64)
	if !ok || err != nil {
		return driver.Record{}
	}
	return driver.Record{Value: []byte(value), Version: n, Token: n}
}

// Records returns the records of a list of {name, raw}.
func (r Reply) Records() map[string]driver.Record {
	all := make(map[string]driver.Record, len(r))
	for i := range r {
		one := r.List(i)
		all[one.Text(0)] = Record(one.Text(1))
	}
	return all
}

// Results returns what became of ops, from a list of {done, raw}.
func (r Reply) Results() []driver.Result {
	all := make([]driver.Result, len(r))
	for i := range r {
		one := r.List(i)
		all[i] = driver.Result{Done: one.Text(0) == "1", Record: Record(one.Text(1))}
	}
	return all
}

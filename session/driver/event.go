package driver

// Target is what a watch is on.
type Target struct {
	Kind  TargetKind
	Queue string

	// Ref is the entry, of OfEntry.
	Ref Ref

	// Record is the name of the record, of OfRecord.
	Record string
}

// TargetKind is the kind of a target.
type TargetKind uint8

// The kinds of targets.
const (
	OfEntry   TargetKind = iota // an entry
	OfHolders                   // the entries of a queue that have the mark Admitted: one came or went
	OfRecord                    // a record
	OfQueue                     // any entry of a queue, which may be empty: one came, changed or went
)

// Target returns the target that is the entry.
func (r Ref) Target() Target { return Target{Kind: OfEntry, Queue: r.Queue, Ref: r} }

// Event is what a watch reports.
type Event struct {
	Kind EventKind

	// Marks are the entry's, of Armed and Changed of an entry.
	Marks Marks

	// First comes with Gone: no entry was ahead of the entry at some time, so the one right
	// behind it is the first now. False means that this is not known.
	First bool
}

// EventKind is the kind of an event.
type EventKind uint8

// The kinds of events.
//
// A watch on an entry begins with Armed or Gone. After Lost comes Armed again, or Gone.
// On any other target Armed and Changed mean that a Read that begins now, together with
// later events, misses nothing; several changes may be reported as one, and a change may
// be reported that is none.
const (
	// Armed: the entry is there now, with these marks, and what happens to it from now
	// on is reported.
	Armed EventKind = iota + 1
	// Changed: the entry has these marks now, or other data.
	Changed
	// Gone: the entry is no more. It is the last event.
	Gone
	// Lost: events may be missing.
	Lost
)

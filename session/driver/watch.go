package driver

// WatchRequest names an entry to watch, or a queue.
type WatchRequest struct {
	// Ref is the entry; for another aspect than OfEntry, its Line is the queue, and its
	// Place, if not 0, is where the part of the queue ends that is of interest.
	Ref Ref

	// Of is what to watch: the entry, or a part of its queue.
	Of Aspect

	// Own marks an entry of this Session. Watches on own entries of one queue may share
	// one at the service.
	Own bool

	// Since, unless 0, requests every event after that Rev, at the price of a late
	// start. It is for entries that no request waits for.
	Since int64

	// Changes wants Changed events too, not only Gone.
	Changes bool

	// Tell requests Event.Held, for which the end of the entry may be reported one read
	// later.
	Tell bool
}

// Aspect is what of a queue can be watched.
type Aspect uint8

// The aspects. Of a queue, nothing is ever Gone: Changed reports that something has
// happened, perhaps, whether or not Changes was set. The events of a queue come from
// Armed on; to know what is there, read the queue after it.
const (
	OfEntry    Aspect = iota // the entry
	OfAdmitted               // the end of an entry that was admitted; see Profile.Ends
	OfLimit                  // another limit
	OfLine                   // an entry came, changed or went, also in an empty queue
)

// Event is what a watch reports.
type Event struct {
	Kind EventKind
	Rev  int64 // 0 if the service has no such number, or none for this event

	// Held comes with Gone, and only where WatchRequest.Tell requested it: the entry
	// held exclusively when its owner released it. So no entry was ahead of it, and the
	// entry right behind it is first now. False means that this is not known.
	Held bool
}

// EventKind is the kind of an event.
type EventKind int

// The kinds of events. A watch begins with Armed or Gone. After Broken comes
// Armed again (or Gone), and what lies between is unknown: read the queue.
const (
	// Armed: the watch reports whatever happens to the entry after Rev. A read that is
	// not older than Rev therefore closes the gap before it. With Since, Rev is Since,
	// or more if the service has forgotten what was between. With a Rev of 0 there is
	// no gap: the entry lives at that moment; for one that does not, Gone is reported
	// instead, also after Broken.
	Armed EventKind = iota + 1
	// Changed: the entry's owner changed it (Share, Admit, Write). Where events
	// have no Rev it also follows Armed if the entry was changed before.
	Changed
	// Gone: the entry is no more. It is the last event.
	Gone
	// Broken: events may have been lost; the watch is being made anew.
	Broken
)

package driver

// WatchRequest names an entry to watch, or a line.
type WatchRequest struct {
	// Ref is the entry; for another aspect than OfEntry, its Line is the line, and
	// its Place, if not 0, is where the part of the line ends that is of interest.
	Ref Ref

	// Of says what is watched: the entry, or something of its line.
	Of Aspect

	// Own marks an entry of this Session. Watches on own entries of one line
	// may share one at the service.
	Own bool

	// Since, unless 0, wants every event after that Rev, at the price of a
	// late start. It is for entries that nobody waits for.
	Since int64

	// Changes wants Changed events too, not only Gone.
	Changes bool

	// Tell asks for Event.Held, for which the end of the entry may be told one
	// read later.
	Tell bool
}

// Aspect is what of a line can be watched.
type Aspect uint8

// The aspects. Of a line, nothing is ever Gone: Changed says that something has
// happened, perhaps, and is told whether or not Changes was asked for. The
// events of a line are told from Armed on; whoever wants to know what is there
// looks after it.
const (
	OfEntry    Aspect = iota // the entry
	OfAdmitted               // the end of an entry that was admitted; see Profile.Ends
	OfLimit                  // another limit
	OfLine                   // an entry came, changed or went, also in an empty line
)

// Event is what a watch tells.
type Event struct {
	Kind EventKind
	Rev  int64 // 0 if the service has no such number, or none for this event

	// Held comes with Gone, and only where WatchRequest.Tell asked for it: the
	// entry held and admitted nobody beside it when its owner gave it back. So
	// nobody was ahead of it, and whoever stood right behind it is first now.
	// False means that this is not known.
	Held bool
}

// EventKind says what happened.
type EventKind int

// The kinds of events. A watch begins with Armed or Gone. After Broken comes
// Armed again (or Gone), and what lies between is unknown: look.
const (
	// Armed: whatever happens to the entry after Rev will be told. A look that
	// is not older than Rev therefore closes the gap before it. With Since, Rev
	// is Since, or more if the service has forgotten what was between. With a
	// Rev of 0 there is no gap: the entry lives at that moment, and one that
	// does not is told by Gone instead, also after Broken.
	Armed EventKind = iota + 1
	// Changed: the entry's owner changed it (Share, Admit, Write). Where events
	// have no Rev it also follows Armed if the entry was changed before.
	Changed
	// Gone: the entry is no more. It is the last event.
	Gone
	// Broken: events may have been lost; the watch is being made anew.
	Broken
)

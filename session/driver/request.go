package driver

// JoinRequest describes an entry to append to a queue.
type JoinRequest struct {
	Queue  string
	Mode   Mode
	Weight int64 // permits, of a semaphore's request; 0 elsewhere

	// Family selects how the entry is named, on a service where several families of
	// programs name entries in their own way: those of this family find it in the queue.
	Family Family

	// Data is stored in the entry as it is. If Valued, Data is for other programs to
	// read and can be changed with Update; otherwise it is the owner's description.
	// At most Info.MaxData bytes.
	Data   []byte
	Valued bool

	// Detail, unless nil, is kept next to the entry, where other programs do not read it,
	// and goes with the entry: the owner's description of a valued entry. At most 2 KiB.
	Detail []byte

	// IfEmpty makes Join write nothing unless this queue has no entry at all.
	IfEmpty bool

	// Nearest is how many of the nearest entries ahead the answer should contain, if
	// that costs nothing more; 0 means all of them.
	Nearest int

	// Ops are changes of records of the queue, done in the same transaction.
	Ops []Op

	// Records are records of the queue to be returned, as of the join or later.
	Records []string
}

// Joined is an entry just made.
type Joined struct {
	Entry Entry // with its token

	// View shows the entries ahead, at a moment at which the entry was there: so if its
	// Count is 0, the entry has been the first of the queue. Count is always set; Entries
	// has what costs nothing more, possibly nothing. Complete is set if it has all of
	// them. Records has those that the request named.
	View View

	Ops []Result // of JoinRequest.Ops
}

// LeaveRequest names an entry to delete.
type LeaveRequest struct {
	Ref Ref

	// First reports that at some time no entry was ahead of the entry. A backend that can
	// passes this on to watches of the entry, see Event.First.
	First bool

	// Any deletes the entry of another owner too, as an operator does. The entry must be
	// as a Read has returned it. Where another entry may get its key and its place, Leave
	// returns an error that wraps ErrRefused unless a Read with Detail of this Session has.
	Any bool

	// Ops are changes of records of the queue, all of them optional. An entry's bound
	// records do not go with it by themselves: they are deleted here, by Ops that are
	// Bound, which are done also if the entry was gone.
	Ops []Op
}

// Left is how an entry went.
type Left uint8

// How an entry went.
const (
	// Deleted: by this call's transaction. So the session was alive at that moment.
	Deleted Left = iota
	// Unclear: it is gone, perhaps by an earlier attempt of this call. This proves
	// nothing about the session.
	Unclear
	// WasGone: it was gone before.
	WasGone
)

// ReadRequest describes which part of a queue to read.
type ReadRequest struct {
	Queue string

	// Upto is the last place of interest. 0 means the whole queue: then the answer has
	// its first Nearest entries, all of them if Nearest is 0, and From is ignored.
	Upto int64

	// From is the first place of interest, 0 means Upto. The answer has all entries from
	// From to Upto, and at least the Nearest entries before From, all of them if Nearest
	// is 0.
	From    int64
	Nearest int

	// Marks asks for the marks of the entries. Where that costs another request, they are
	// of the same moment as the entries or later, as records are.
	Marks bool

	// Detail asks for Data, Detail, Session and Token of the entries. Those of an entry
	// that was deleted meanwhile are zero, and so are those of one that is Unreadable.
	Detail bool

	// Records are records to be returned. A name that ends in a slash stands for all
	// records whose names begin with it.
	Records []string

	// Fresh requires an answer that is not older than the call, which may cost another
	// round trip. It is for tools that show a queue; waiters do not need it.
	Fresh bool
}

// View is part of a queue.
type View struct {
	// Entries are in order of place and contiguous. They end at Upto, if the entry there
	// is alive. Of entries of other programs that have one place, all are there or none.
	Entries []Entry

	// Complete reports whether no entry is before Entries[0], or at all, if there are
	// none; for a read with an Upto of 0, whether no entry is behind the last.
	Complete bool

	// Count is how many entries the part up to Upto has, -1 if that is not known. In a
	// Joined it is how many are ahead, or more: a service may count what is no entry.
	Count int

	// Records are those that exist of those that the request named.
	Records map[string]Record
}

// Record is a value next to a queue.
type Record struct {
	Value   []byte
	Version int64 // for At; above 0

	// Token is the store's sequence number of the last write. It is comparable with the
	// tokens of entries: it is the token of an entry made in the same transaction.
	Token int64
}

// UpdateRequest describes a change of an own entry and of records of its queue.
type UpdateRequest struct {
	Queue string
	Entry Ref // zero: only records are changed

	// Marks are added to the entry, which must not be Valued. Shared is added only to an
	// entry that has been first, and Admitted only to a Weighted one.
	Marks Marks

	// Data, unless nil, replaces the entry's, which must be Valued. Only an entry that
	// has been first gets other Data.
	Data []byte

	// Detail, unless nil, replaces what is kept next to the entry. It is no event: no
	// watch reports it. If the service refuses it, it is left out.
	Detail []byte

	Ops []Op
}

// Op is the change of a record, if a condition is met.
type Op struct {
	Record string // its name, for example "slot/3"
	If     Cond

	// Value is what is written; nil deletes the record. With EqualOrAbsent nothing is
	// written where the record is there.
	Value []byte

	// Bound makes the record end with this session; in a Leave it may delete one that
	// was made so.
	Bound bool

	// Optional: the rest of the request is done also if this is not.
	Optional bool
}

// Cond is the condition of an Op.
type Cond struct {
	Kind    CondKind
	Value   []byte // of Equal and EqualOrAbsent: at most 64 printable ASCII characters, no '/'
	Version int64  // of At
}

// CondKind is the kind of a condition.
type CondKind uint8

// The kinds of conditions.
const (
	IfAbsent        CondKind = iota // the record is not there
	IfEqual                         // it has that value
	IfEqualOrAbsent                 // it is not there, or has that value
	IfAt                            // it is there, as it was at that version
)

// Absent is met if the record is not there.
func Absent() Cond { return Cond{} }

// Equal is met if the record has that value. It may be met by another record than the
// one that was read, if that has the same value: where this matters, use At.
func Equal(value []byte) Cond { return Cond{Kind: IfEqual, Value: value} }

// EqualOrAbsent is met if the record has that value or is not there.
func EqualOrAbsent(value []byte) Cond { return Cond{Kind: IfEqualOrAbsent, Value: value} }

// At is met if the record is there, and was not written since it had that version. A
// version of 0 is met if the record is not there.
func At(version int64) Cond {
	if version == 0 {
		return Absent()
	}
	return Cond{Kind: IfAt, Version: version}
}

// Result is what became of an Op.
type Result struct {
	// Done reports that the Op was done. False means that it is not known to have been
	// done: its condition does not hold, or an earlier attempt may have done it. A required
	// Op of an Update that returned nil was done.
	Done bool

	// Record is the record as the answer shows it: after the change if it was done, else
	// what kept it from being done. It is zero if no answer shows it.
	Record Record
}

package driver

// JoinRequest says what to put at the end of which line.
type JoinRequest struct {
	Line   string
	Mode   Mode
	Weight int64 // of a semaphore's request; 0 elsewhere
	Meta   Meta

	// IfEmpty makes Join write nothing unless the line has no entry at all.
	IfEmpty bool

	// Nearest is how many of the nearest entries ahead the caller would like to
	// be told of, if that costs nothing more; 0 means all of them.
	Nearest int

	// Kin says whose entries this one must look like, where programs that are
	// not ours stand in the same line.
	Kin Kin

	// Value, unless nil, is stored in the entry as it is, for other programs to
	// read, and can be changed with Write. Meta lies beside the line then, and
	// goes with the entry. At most Profile.MaxValue bytes.
	Value []byte

	// Limit, unless 0, is the limit of the line, which stays at the service until
	// somebody deletes it. Where there is none yet, Join makes it. Where there is
	// another, Join makes no entry and returns a *LimitError, unless Follow.
	Limit int64

	// Follow takes any limit that the line has.
	Follow bool

	// Ledger has the line keep account of how holds end. The ledger is a small
	// value beside the line, which stays until somebody deletes it. Who holds
	// enters its name, and strikes it out when it gives back cleanly, in the
	// transaction that deletes its entry: so a name that is found there, of an
	// entry that is gone, is that of one who did not. Join enters the name at
	// once, where it takes no further round trip and the ledger was clean so far,
	// though it is not known by then whether the entry holds; Enter tells such a
	// name from one that held, since its place is behind.
	Ledger bool
}

// Kin is a family of programs that lock.
type Kin uint8

// The families. Most services have only one way to name an entry.
const (
	KinMutex     Kin = iota // Curator's InterProcessMutex and LeaderSelector, zk.Lock
	KinReadWrite            // Curator's InterProcessReadWriteLock
	KinLatch                // Curator's LeaderLatch
)

// Joined is an entry just made.
type Joined struct {
	Entry Entry

	// Rev is when the entry was made: what happens to it after Rev is told by a
	// watch with Since, and Ahead and Known are as of Rev or later. 0 if the
	// service has no such number.
	Rev int64

	// Ahead is how many entries were ahead, at a moment at which the entry was
	// there: if it is 0, the entry has been the first of the line.
	Ahead int

	// Known are entries ahead, in order of place, as far as the answer happened
	// to tell. It holds all of them if len(Known) == Ahead; otherwise it says
	// nothing of who is nearest, unless Near does.
	Known []Entry

	// Near says that nobody stands between the last of Known and the entry, nor
	// between any two of them: a Look with JoinRequest.Nearest would show them.
	Near bool

	// Limit is the line's limit, if the request had one.
	Limit int64

	// Entered says that the ledger has the entry's name, and Past how the hold
	// before it ended, provided that nobody is ahead.
	Entered bool
	Past    Past
}

// Number is what Claim gives an entry.
type Number struct {
	N int

	// Token is a fencing token for what the number stands for. It rises with
	// every entry that gets the number, which that of the entry need not: one
	// that came later may have been faster with its claim, and gone again.
	Token int64
}

// Past is how a hold ended.
type Past uint8

// The ways to end, as far as a ledger tells.
const (
	PastUnknown Past = iota // no ledger was read
	PastClean               // given back, or nobody has held under this ledger before
	PastDied                // the entry went by itself: its owner died, or lost it
)

// LeaveRequest names the entry to delete.
type LeaveRequest struct {
	Ref Ref

	// Held says that the entry holds and admits nobody beside it. A backend
	// that can leaves word of it for those who watch, see Event.Held.
	Held bool

	// Probe, unless zero, is the entry of this Session that stands right
	// behind, whose life is to be checked at the moment of the deletion if that
	// costs nothing.
	Probe Ref

	// Clean strikes the entry's name out of the line's ledger, if it is there.
	Clean bool
}

// Left is the answer to a Leave.
type Left struct {
	Rev    int64 // of the deletion; 0 if not known
	Told   bool  // whatever was before the deletion has been told; see Session.Leave
	Probed bool  // Probe was checked at the deletion ...
	Alive  bool  // ... and was alive then
	Gone   bool  // it was gone before; only from LeaveAll
}

// Turned is the answer to a Share.
type Turned struct {
	Ref Ref // the entry's name from then on, which is another where Profile.Moves

	// Rev is a moment by which the entry admitted others: a look that is not older
	// shows it so, if it is still there. 0 if the service has no such number: then
	// the looks show it that this Session begins after the answer.
	Rev int64
}

// LookRequest says which part of a line to read.
type LookRequest struct {
	Line string

	// Upto is the last place of interest.
	Upto int64

	// Nearest is how many entries before Upto are wanted, those nearest to it;
	// 0 means all of them.
	Nearest int

	// NotBefore is a Rev that the answer must not be older than.
	NotBefore int64

	// Limit asks for the line's limit too, as it is at the moment of the answer
	// or after it.
	Limit bool
}

// View is a line, or its end, as it was at Rev.
type View struct {
	Rev int64

	// Entries stand in order of place, none behind Upto; the entry at Upto is
	// the last, if it is alive.
	Entries []Entry

	// Complete says that nobody stands before Entries[0] (or at all, if there
	// are none).
	Complete bool

	// Limit is the line's limit, if LookRequest.Limit asked for it; 0 if the line
	// has none.
	Limit int64
}

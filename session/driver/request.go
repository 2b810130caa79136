package driver

// JoinRequest describes an entry to append, and the queue.
type JoinRequest struct {
	Line   string
	Mode   Mode
	Weight int64 // of a semaphore's request; 0 elsewhere
	Meta   Meta

	// IfEmpty makes Join write nothing unless the queue has no entry at all.
	IfEmpty bool

	// Nearest is how many of the nearest entries ahead the answer should contain, if
	// that costs nothing more; 0 means all of them.
	Nearest int

	// Kin is the family of programs whose entries this one must look like, where other
	// programs use the same queue.
	Kin Kin

	// Value, unless nil, is stored in the entry as it is, for other programs to read,
	// and can be changed with Write. Meta is then a record of its own, which goes with
	// the entry. At most Profile.MaxValue bytes.
	Value []byte

	// Limit, unless 0, is the limit of the queue, which stays at the service until an
	// operator deletes it. Where there is none yet, Join makes it. Where there is a
	// different one, Join makes no entry and returns a *LimitError, unless Follow.
	Limit int64

	// Follow accepts any limit that the queue has.
	Follow bool

	// Ledger makes the queue record how holds end. The ledger is a small value for each
	// queue, which stays until an operator deletes it. A holder enters its name, and
	// removes it when it releases cleanly, in the transaction that deletes its entry.
	// So a name in the ledger whose entry is gone belongs to a holder that did not
	// release. Join enters the name at once, where that takes no further round trip and
	// the ledger was clean so far, though it is not known by then whether the entry
	// holds; Enter can distinguish such a name from that of a holder, since its place
	// is behind.
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

	// Rev is when the entry was made: a watch with Since reports what happens to it
	// after Rev, and Ahead and Known are as of Rev or later. 0 if the service has no
	// such number.
	Rev int64

	// Ahead is how many entries were ahead, at a moment at which the entry was there:
	// if it is 0, the entry has been the first of the queue.
	Ahead int

	// Known are entries ahead, in order of place, as far as the answer happened to
	// contain them. It has all of them if len(Known) == Ahead; otherwise it need not
	// have the nearest ones, unless Near is set.
	Known []Entry

	// Near reports whether no entry is between the last of Known and this entry, nor
	// between any two of Known: a Look with JoinRequest.Nearest would return them.
	Near bool

	// Limit is the queue's limit, if the request had one.
	Limit int64

	// Entered reports whether the ledger has the entry's name, and Past how the hold
	// before it ended, provided that no entry is ahead.
	Entered bool
	Past    Past
}

// Number is the slot that Claim assigns to an entry.
type Number struct {
	N int

	// Token is a fencing token for the slot. It rises with every entry that gets the
	// slot, which the token of the entry need not: a later entry may have claimed the
	// slot earlier, and released it.
	Token int64
}

// Past is how a hold ended.
type Past uint8

// The ways to end, as far as a ledger shows.
const (
	PastUnknown Past = iota // no ledger was read
	PastClean               // released, or no entry has held under this ledger before
	PastDied                // the entry went by itself: its owner died, or lost it
)

// LeaveRequest names the entry to delete.
type LeaveRequest struct {
	Ref Ref

	// Held reports that the entry holds, exclusively. A backend that can records this
	// for watches, see Event.Held.
	Held bool

	// Probe, unless zero, is the entry of this Session right behind. Leave checks
	// whether it lives at the moment of the deletion if that costs nothing.
	Probe Ref

	// Clean removes the entry's name from the queue's ledger, if it is there.
	Clean bool
}

// Left is the answer to a Leave.
type Left struct {
	Rev    int64 // of the deletion; 0 if not known
	Told   bool  // every event before the deletion has been delivered; see Session.Leave
	Probed bool  // Probe was checked at the deletion ...
	Alive  bool  // ... and was alive then
	Gone   bool  // it was gone before; only from LeaveAll
}

// Turned is the answer to a Share.
type Turned struct {
	Ref Ref // the entry's name from then on, which is another where Profile.Moves

	// Rev is a moment by which the entry was shared: a read that is not older shows it
	// so, if it is still there. 0 if the service has no such number: then the reads
	// show it that this Session begins after the answer.
	Rev int64
}

// LookRequest describes which part of a queue to read.
type LookRequest struct {
	Line string

	// Upto is the last place of interest.
	Upto int64

	// Nearest is how many entries before Upto are wanted, those nearest to it;
	// 0 means all of them.
	Nearest int

	// NotBefore is a Rev that the answer must not be older than.
	NotBefore int64

	// Limit requests the queue's limit too, as it is at the moment of the answer or
	// after it.
	Limit bool
}

// View is a queue, or its end, as it was at Rev.
type View struct {
	Rev int64

	// Entries are in order of place, none behind Upto; the entry at Upto is the last,
	// if it is alive.
	Entries []Entry

	// Complete reports whether no entry is before Entries[0] (or at all, if there are
	// none).
	Complete bool

	// Limit is the queue's limit, if LookRequest.Limit requested it; 0 if the queue has
	// none.
	Limit int64
}

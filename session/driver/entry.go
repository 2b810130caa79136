package driver

import "strings"

// Ref names one entry. Keys may be used again, and places may begin anew in a queue that
// was empty; two entries with the same pair exist only with an empty queue between them.
// It is comparable.
type Ref struct {
	Queue string // the name that the user gave
	Key   string // what the service calls the entry
	Place int64  // its order in the queue: etcd's create revision, ZooKeeper's sequence
}

// Zero reports whether r names nothing.
func (r Ref) Zero() bool { return r == Ref{} }

// Mode is what an entry shares the lock with.
type Mode uint8

// The modes. Entries of other programs count as Exclusive.
const (
	Exclusive Mode = iota // a mutex, a writer, a candidate
	Shared                // a reader
	Weighted              // a semaphore's request; Entry.Weight counts
)

// String returns the mode's name as it is shown to people.
func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	case Weighted:
		return "weighted"
	}
	return "unknown"
}

// Marks are facts that the owner of an entry has added to it.
type Marks uint8

// The marks.
const (
	MarkShared   Marks = 1 << iota // a writer that became a reader, in its place
	MarkAdmitted                   // a request for permits that holds
)

// Has reports whether all marks of o are among m.
func (m Marks) Has(o Marks) bool { return m&o == o }

// Family is a family of programs that lock. Most services have only one way to name an
// entry.
type Family uint8

// The families.
const (
	FamilyMutex     Family = iota // Curator's InterProcessMutex and LeaderSelector, zk.Lock
	FamilyReadWrite               // Curator's InterProcessReadWriteLock
	FamilyLatch                   // Curator's LeaderLatch
)

// Entry is one place in a queue, as far as the answer that it came with shows.
type Entry struct {
	Ref
	Mode   Mode // as it joined; see Marks
	Weight int64
	Marks  Marks // those that the answer shows

	// Foreign marks an entry that this library did not make. It counts as exclusive,
	// unless its name marks it as a reader.
	Foreign bool

	// Unleased marks an entry that is known to have no session: it stays until an
	// operator deletes it.
	Unleased bool

	// Valued reports that Data is for other programs, not the owner's description.
	Valued bool

	// Token is the fencing token, and Session the service session that keeps the entry,
	// as the service's own tools show it. They are zero unless the answer contained them.
	Token   int64
	Session string

	// Unreadable marks an entry that is there, and of which the login may not read what
	// the answer should contain. So its Token is zero, and this is no sign that it was deleted.
	Unreadable bool

	// Data and Detail are as in JoinRequest, or as Update has changed them. They are nil
	// unless the answer contained them. A foreign entry has only Data.
	Data   []byte
	Detail []byte
}

// Shares reports whether the entry admits other readers: it is a reader, or a writer
// that became one.
func (e *Entry) Shares() bool { return e.Mode == Shared || e.Marks.Has(MarkShared) }

// askSuffix ends the name of a queue of yield requests. No lock has such a name, because
// names contain no NUL.
const askSuffix = "\x00asks"

// AskQueue is the queue of the yield requests for a lock, which any backend keeps next
// to the lock's own queue. A yield request is an entry there, on the session of its
// sender, and all that is promised of entries is promised of it.
//
// A backend treats it as any other queue, with two exceptions: no program that uses the
// lock's queue, and no watch of it, is affected by it; and Names does not return it.
func AskQueue(name string) string { return name + askSuffix }

// AskedQueue is the inverse of AskQueue; false if that queue is not one of yield
// requests.
func AskedQueue(queue string) (name string, ok bool) { return strings.CutSuffix(queue, askSuffix) }

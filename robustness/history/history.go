// Package history holds what clients of a lock have seen against what the lock
// promises. It knows no service and no lock: it judges records.
//
// Oracles that share no code look at the same things, so that a mistake in one of
// them does not hide a defect:
//
//   - Model looks for an order of all operations of a line, with porcupine. It sees
//     S1, S2 and S4.
//   - Sweep goes along the time line, once. It sees S1, S1', S2, S4, S6 and L2, and
//     measures how long before the next grant a holder was told.
//   - Replay plays what the store says has happened, in the store's order. It sees
//     S2, S4 and S5, and lies of clients about it (S1). It needs no clock.
//   - Fence looks at a resource that the lock protects, and sees S3.
//
// What cannot be judged is a violation too, of "model". L1 is not seen here: only
// who has made the fault knows when all was well again.
//
// Model and Sweep come to the same result, but for holds without a token among
// others that have one. That is tested with histories of which nothing is known,
// and each oracle with planted defects that it must find.
//
// The properties are:
//
//   - S1: of two holds that exclude each other, no check of the older one says
//     "held" that was begun after the newer one was granted; no more permits are
//     believed in than there are.
//   - S1': a hold that has said that it is over never says "held" again.
//   - S2: tokens are unique, and rise in the order of grants: one that was granted
//     before another was asked for has the lower token. Readers' tokens are above
//     those of all writers before them, writers' above all.
//   - S3: a resource that takes no token lower than the highest it has seen loses
//     no update.
//   - S4: grants are in the order of the line, but for who left it: of two
//     requests that exclude each other, the one whose entry is older.
//   - S5: nothing is left behind.
//   - S6: a call returns soon after its context has ended.
//   - L1: who is first in line is granted in time when all is well again.
//   - L2: a holder that is cut off is told before anybody else is granted.
package history

// Instant is a time in nanoseconds on a clock that all clients of a history share
// and that never goes back; 0 means that something has not happened.
type Instant int64

// Recipe is what a line is for.
type Recipe string

// The recipes.
const (
	Mutex     Recipe = "mutex"
	Reentrant Recipe = "reentrant"
	ReadWrite Recipe = "read-write"
	Semaphore Recipe = "semaphore"
)

// Line is one lock.
type Line struct {
	Name   string
	Recipe Recipe
	Limit  int64 // permits of a Semaphore
}

// Outcome says how giving back went.
type Outcome string

// The outcomes.
const (
	NotGiven Outcome = ""        // nobody tried to: the client died, or the hold is still there
	Given    Outcome = "given"   // acknowledged
	Pending  Outcome = "pending" // not known: it may have happened at any time since, or not yet
	Lost     Outcome = "lost"    // the hold had ended before
)

// Attempt is one request for a lock, and the hold that came of it, as its client
// saw them.
type Attempt struct {
	Client int
	Line   string
	Shared bool  // a reader
	Weight int64 // permits of a semaphore
	Nested bool  // inside an own hold, whose token it has (Reentrant)

	Asked  Instant // the call
	Ends   Instant // the call's context has ended by then; 0 if it did not
	Got    Instant // the return, with a hold or an error
	Failed string  // the error; "" with a hold

	Token int64 // of the hold; 0 if this lock has none
	Place int64 // the hold's entry in the order of the store, 0 if unknown
	Entry string

	// What the hold said of itself when it was asked. The last time that it said
	// "held" is when that question was put; the first time that it said "over" is
	// when that answer came.
	Held Instant
	Over Instant
	Told Instant // its context, or what this lock has instead, had ended by then
	Lied Instant // it said "held" after it had said "over"

	Back    Instant // giving back was called
	Outcome Outcome
	Done    Instant // giving back returned

	// Stopped says that its process was stopped or killed while it held. Nobody
	// can be told anything then, so L2 asks nothing of this hold.
	Stopped bool

	Fault string // what was done to this client meanwhile, for reports
}

// Violation is a promise that was not kept.
type Violation struct {
	Property string // S1 … L2, or "model" if an oracle could not decide
	Oracle   string // which one says so
	Line     string
	Text     string
}

// Change is something that happened to a line at the store. Changes are in the
// order in which the store made them; several may have been made at once, and
// have one At then.
type Change struct {
	At     int64  // revision or zxid
	Kind   string // Joined, Left, Shared or Limit
	Place  int64  // of the entry
	Shared bool   // a reader, by now
	Weight int64
	Limit  int64 // that the line has from now on

	// Seen is when somebody who looks on has learned of it; 0 if nobody did. It may
	// be late, and is never before what it tells of was asked for: it shows how long
	// something was left behind, and who believed in what was gone.
	Seen Instant
}

// The kinds of changes.
const (
	Joined   = "joined"
	Left     = "left"
	Shares   = "shares" // a writer has become a reader
	LimitSet = "limit"
)

// Package history judges what the clients of a lock observed against what the lock
// promises. It knows no service and no lock, only records.
//
// Several oracles judge the same record. They share no logic, so that a mistake in
// one oracle does not hide a defect:
//
//   - Model searches, with porcupine, for an order of all operations of a queue. It
//     checks S1, S2 and S4.
//   - Sweep goes along the time line, once. It checks S1, S1', S2, S4, S6 and L2, and
//     measures how long before the next grant a holder was notified.
//   - Replay replays the changes that the store recorded, in the store's order. It
//     checks S2, S4 and S5, and whether the clients' reports agree with the store
//     (S1). It needs no clock of the store.
//   - Fence judges a resource that the lock protects. It checks S3.
//
// What an oracle cannot judge is a violation too, of the property "model". L1 is not
// checked here: only the code that made the fault knows when the service was well
// again.
//
// Model and Sweep reach the same result, except for holds without a token among
// holds with one. Tests check that with random histories. They also plant defects
// in correct histories, which the oracles must find.
//
// The properties are:
//
//   - S1: after a hold was granted, an older hold that it excludes reports "held" to
//     no check that begins later; no more permits are held than there are.
//   - S1': a hold that has reported "over" never reports "held" again.
//   - S2: tokens are unique, and rise in the order of grants: a hold that was granted
//     before another was requested has the lower token. A reader's token is higher
//     than those of all writers before it, a writer's higher than all before it.
//   - S3: a resource that refuses every token lower than the highest it has seen
//     loses no update.
//   - S4: of two requests that exclude each other, the one with the older entry is
//     granted first, unless it left the queue.
//   - S5: nothing is left behind.
//   - S6: a call returns soon after its context has ended.
//   - L1: the first waiter is granted in time once the service is well again.
//   - L2: a holder that is cut off is notified before the next one is granted.
package history

// Instant is a time in nanoseconds on a clock that all clients of a history share
// and that never goes back; 0 means that something has not happened.
type Instant int64

// Recipe is the recipe that uses a queue.
type Recipe string

// The recipes.
const (
	Mutex     Recipe = "mutex"
	Reentrant Recipe = "reentrant"
	ReadWrite Recipe = "read-write"
	Semaphore Recipe = "semaphore"
)

// Queue is the queue of one lock.
type Queue struct {
	Name   string
	Recipe Recipe
	Limit  int64 // permits of a Semaphore
}

// Outcome is the result of a release.
type Outcome string

// The outcomes.
const (
	NotReleased Outcome = ""        // no release was called: the client died, or still holds
	Released    Outcome = "given"   // the release was acknowledged
	Pending     Outcome = "pending" // unknown: it may have taken effect at any time since the call, or not yet
	Lost        Outcome = "lost"    // the hold had ended before
)

// Attempt is one request for a lock and the hold that it resulted in, as its client
// saw them.
type Attempt struct {
	Client int
	Queue  string `json:"Line"` // its name; stored results have it as Line
	Shared bool   // a reader
	Weight int64  // permits of a semaphore
	Nested bool   // inside a hold of the same client, whose token it has (Reentrant)

	Asked  Instant // the call
	Ends   Instant // the call's context had ended by then; 0 if it did not end
	Got    Instant // the return, with a hold or an error
	Failed string  // the error; "" with a hold

	Token int64 // of the hold; 0 if this lock has none
	Place int64 // of the hold's entry in the order of the store; 0 if unknown
	Entry string

	// The hold's answers, while its client asked whether it still held. Held is when
	// the question of the last "held" was put; Over is when the first "over" came.
	Held Instant
	Over Instant
	Told Instant // the hold's context, or what this lock has instead, had ended by then
	Lied Instant // the hold answered "held" after it had answered "over"

	// HandsOver is when the context of the work of a leader ended, because a newer candidate is to lead.
	HandsOver Instant `json:",omitempty"`

	Back    Instant // the release was called
	Outcome Outcome
	Done    Instant // the release returned

	// Stopped reports that the client's process was stopped or killed while it held.
	// Such a process cannot be notified, so L2 does not judge this hold.
	Stopped bool

	// Follows reports that the holder before was of the same session. A session may pass a lock on when
	// the release was called, and before the store has carried it out.
	Follows bool `json:",omitempty"`

	Fault string // the fault at this client meanwhile, for reports
}

// Violation is a promise that was not kept.
type Violation struct {
	Property string // S1 … L2, or "model" if an oracle could not decide
	Oracle   string // that found it
	Queue    string `json:"Line"` // its name; stored results have it as Line
	Text     string
}

// Change is one change of a queue at the store. Changes are in the order in which the
// store made them; changes that it made at once have the same At.
type Change struct {
	At     int64  // revision or zxid
	Kind   string // Joined, Left, Shares or LimitSet
	Place  int64  // of the entry
	Shared bool   // the entry is a reader's after the change
	Weight int64
	Limit  int64 // of the queue after the change

	// Seen is when an observer learned of the change; 0 if none did. It may be late,
	// but it is never before the request for the change. It shows how long an entry
	// was left behind, and whether a client still relied on a deleted entry.
	Seen Instant
}

// The kinds of changes.
const (
	Joined   = "joined"
	Left     = "left"
	Shares   = "shares" // a writer has become a reader
	LimitSet = "limit"
)

// Package failpoint names the bugs that tests plant in the library, to show that
// the tests find such bugs. A lock service or its client has had each of them, or
// this library almost had.
//
// The library checks a failpoint in a statement of its own, next to the code that
// keeps the bug out, so that this code reads as if there were no failpoint:
//
//	late := b.over || b.proven && !b.alive(now)
//	if failpoint.On(failpoint.LossNotLatched) {
//		late = false
//	}
//
// Only builds with the tag failpoints can turn one on. In all other builds [On] is
// false at compile time, and the compiler leaves the statement out.
package failpoint

// Point is a place in the library where a test can plant a bug.
type Point uint8

// The failpoints. Each comment describes what the library does wrong while the failpoint is on.
const (
	none Point = iota

	NoDeadline            // a hold lasts until the service reports that the session is over
	DeadlineByReceipt     // the deadline counts from the answer to a renewal, as in etcd's client
	LossNotLatched        // a late answer to a renewal revives a lost hold
	NoRecheck             // a waiter does not check that its own entry still exists (etcd #11456)
	LateWatch             // a change between the read and the watch is never noticed
	PredecessorGone       // the end of its predecessor alone grants a waiter
	TokenByClock          // tokens come from the client's clock
	NoLeaveOnCancel       // a waiter that gives up leaves its entry in the queue
	UnlockGivesUp         // an Unlock without an answer is not finished in the background
	JoinTwice             // a join that is sent again makes a second entry
	LateJoin              // a settled join takes effect when it arrives late
	ReaderPasses          // a reader joins readers although a writer waits
	DowngradeAnew         // a downgrade deletes the entry and makes another
	NoAdmittedMark        // a holder of permits does not mark its entry as admitted, and no waiter reads by its timer
	OldLimit              // permits are granted by the limit of an older read
	ProclaimEnds          // a leader that proclaims a new value counts as resigned
	JoinInTurn            // several queues are joined one after the other
	WaiterReportedFirst   // a waiter that leaves counts as an entry that was first
	LedgerClearedByWaiter // a waiter that gives up deletes the name of a dead holder from the ledger
	LimitCopied           // a late resize undoes a newer one
	OldRead               // a read after an event may be older than the event
	EndsInTurn            // a hold's context ends only after the hook of the hold before has returned
	EntersFirst           // a reentrant handle exists before it is known whether the hold is over
	GrantInDoubt          // an event grants an entry of a session that may have ended
	UnclearGrants         // a deletion that an earlier attempt may have made grants the next entry
	LateView              // a view, and an end that is newer than it, together grant an entry
	ArmedDead             // a watch on an entry that is gone reports that it is armed
	LimitFirst            // a read shows a limit from before the entries
	PermitByEvent         // an event that is added to an older view grants permits
	LostUnread            // what happened between Lost and Armed is never read
	GapClosed             // when an entry is gone, the entries before it count as known
	JoinerDied            // the name that a later join has written into the ledger counts as that of a dead holder
	WriterReplaced        // the end of another program's writer counts as the end of all that have its place
	SlotUnclaimed         // a hold takes the slot with its number without asking for it
	SeveralNamed          // a join of several locks enters its name into their ledgers, and leaves it there while it waits
	WaiterNamed           // a waiter leaves its name in the ledger
	OnceForgets           // the record of finished work keeps only the newest key
	LimitMissed           // a request fails when an operator deletes its semaphore's limit
	OverEscapes           // a request whose session ends fails with the backend's error
	PastOfFirst           // a hold of several locks reports only how the last hold of the first one ended

	end // of the list
)

// All returns every failpoint.
func All() []Point {
	var all []Point
	for p := none + 1; p < end; p++ {
		all = append(all, p)
	}
	return all
}

// String returns the failpoint's name.
func (p Point) String() string {
	return [end]string{
		"none", "NoDeadline", "DeadlineByReceipt", "LossNotLatched", "NoRecheck", "LateWatch", "PredecessorGone", "TokenByClock",
		"NoLeaveOnCancel", "UnlockGivesUp", "JoinTwice", "LateJoin", "ReaderPasses", "DowngradeAnew",
		"NoAdmittedMark", "OldLimit", "ProclaimEnds", "JoinInTurn", "WaiterReportedFirst", "LedgerClearedByWaiter", "LimitCopied", "OldRead",
		"EndsInTurn", "EntersFirst", "GrantInDoubt", "UnclearGrants", "LateView", "ArmedDead", "LimitFirst",
		"PermitByEvent", "LostUnread", "GapClosed", "JoinerDied", "WriterReplaced", "SlotUnclaimed",
		"SeveralNamed", "WaiterNamed", "OnceForgets", "LimitMissed", "OverEscapes", "PastOfFirst",
	}[p]
}

// Package defect names the bugs that tests plant in the library, to see whether
// they would be found. Each is one that a lock has had somewhere, or that this
// one nearly had.
//
// Without the build tag mutants none can be planted, and [Is] is false at
// compile time: nothing of it is in a program.
package defect

// Defect is a bug that can be planted.
type Defect uint8

// The defects.
const (
	None Defect = iota

	NoDeadline        // a hold is believed in until the service says that it is over
	DeadlineByReceipt // the deadline counts from the answer to a renewal, as etcd's client does
	LossNotLatched    // a renewal that is answered late revives what was lost
	NoRecheck         // who has waited does not look whether its own entry lives (etcd #11456)
	LateWatch         // what happened between the look and the watch is never told
	PredecessorGone   // when the one before goes, whoever waited for it holds
	TokenByClock      // tokens come from the clock of the client
	NoLeaveOnCancel   // who gives up waiting leaves its entry in the line
	UnlockGivesUp     // an Unlock without an answer is not finished in the background
	JoinTwice         // a join that is sent again makes another entry
	LateJoin          // a join that was settled takes effect when it arrives late
	ReaderPasses      // a reader joins readers though a writer waits
	DowngradeAnew     // a downgrade deletes the entry and makes another
	MovedGone         // a writer that moved is taken for one that has gone
	MovedComplete     // a line in which a writer moved is taken for one that is known
	NoNote            // who has permits does not note it, and nobody looks by itself
	OldLimit          // permits are given by the limit that an older look has shown
	ProclaimEnds      // a leader that says something new is taken for one that has resigned
	JoinInTurn        // several lines are joined one after the other
	WordOfWaiter      // who only waited leaves word that it held
	StruckByWaiter    // who gives up waiting strikes the dead out of the ledger
	LimitCopied       // a resize that comes late undoes a newer one
	OldLook           // a look that is made for news may be older than they are
	EndsInTurn        // a hold's context ends when the hook of the one before has returned
	EntersFirst       // a handle on a hold is there before it is known whether the hold is over
	ReadAfterOwn      // the read after the watches are armed waits for the own watch too
	end               // of the list
)

// All returns every defect.
func All() []Defect {
	var all []Defect
	for d := None + 1; d < end; d++ {
		all = append(all, d)
	}
	return all
}

// String is the defect's name.
func (d Defect) String() string {
	names := [...]string{
		"None", "NoDeadline", "DeadlineByReceipt", "LossNotLatched", "NoRecheck", "LateWatch", "PredecessorGone", "TokenByClock",
		"NoLeaveOnCancel", "UnlockGivesUp", "JoinTwice", "LateJoin", "ReaderPasses", "DowngradeAnew", "MovedGone", "MovedComplete",
		"NoNote", "OldLimit", "ProclaimEnds", "JoinInTurn", "WordOfWaiter", "StruckByWaiter", "LimitCopied", "OldLook",
		"EndsInTurn", "EntersFirst", "ReadAfterOwn",
	}
	if int(d) < len(names) {
		return names[d]
	}
	return "unknown"
}

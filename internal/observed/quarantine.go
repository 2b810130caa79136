package observed

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// A Store is what one answer shows of the life of a store. All fields were read in one step.
type Store struct {
	Server string // the life of the server that has answered; never ""
	Stored string // the life that is blessed; "" in a store that is empty
	Claim  string // the claim that is stored; "" if there is none

	// MaxTTL is the greatest TTL that a session may have had. An answer that shows a smaller one than
	// an earlier answer changes nothing.
	MaxTTL time.Duration

	// Unproven is set if the answer does not show by itself that no server of an older life can
	// acknowledge a renewal any more. A count then begins only after another write of the claim.
	//
	// Where the old server is dead before a new one answers, each answer shows that, and Unproven
	// is false. Where a renewal counts if a majority of the servers has it, an answer shows that if
	// it is to a write that a majority has acknowledged in this life; any other answer is unproven.
	Unproven bool
}

// A Step is what a backend does next.
type Step int

// The steps. The zero Step is none of them.
const (
	// Blessed: the store can be used. The next statement compares the life again.
	Blessed Step = iota + 1

	// ClaimIt: write the claim of the Verdict, if the server has the life of the answer, and the
	// store still has the claim of the answer. Judge what the answer shows, whether it was written
	// or another claim was there first.
	ClaimIt

	// Wait: read again after For, or earlier.
	Wait

	// Bless: in one step compare the life of the server with that of the answer, and the stored
	// claim with that of the Verdict; if both are equal, store the life, and delete the claim, all
	// sessions and all that they own. Judge what the answer shows.
	Bless
)

// A Verdict is the next step of a backend.
type Verdict struct {
	Step  Step
	Claim string        // for all steps but Blessed: to be written, waited for, or compared
	For   time.Duration // for Wait
}

// Quarantine counts how long one process has known the claim of a store that is not blessed. The zero
// value has counted nothing. A backend has one for each store, and keeps it when an opening gives
// up: the next one goes on with the count. It is safe for concurrent use.
type Quarantine struct {
	mu sync.Mutex

	// server is the life that is to be blessed, by the newest answer; "" if that was blessed.
	server string

	// empty is set if the newest answer showed no life that is blessed.
	empty bool

	// claim is what is counted; "" if there is no count. It may be of another life than server:
	// then no answer has shown a claim of that yet.
	claim string

	// since is the receipt of the first answer that showed claim and was not unproven. It never
	// changes as long as claim is the same.
	since driver.Instant

	// ttl is the greatest MaxTTL of all answers. It only rises: an answer in the new life may show
	// one from before a rise that was lost.
	ttl time.Duration
}

// Judge takes in what an answer shows, and returns what to do next. received is when this process
// received the answer. Answers may come in any order: an old one can begin a count again, or lead to
// a write that the store refuses.
//
//	the store                                                      step      the count
//	Stored is Server                                               Blessed   is dropped
//	Server or MaxTTL is missing: the answer is of no use           Wait      stays
//	no claim, or one of another life                               ClaimIt   stays, for its own claim
//	a claim that is not counted yet, and the answer is unproven    ClaimIt   stays, for its own claim
//	a claim that is not counted yet                                Wait      begins at received
//	the claim that is counted, for less than the greatest TTL      Wait      goes on
//	the claim that is counted, for the greatest TTL                Bless     is over
//
// A count that stays is harmless and helps when answers overtake each other: it is good for its claim
// only, and no claim is written a second time after it was blessed or lost.
func (q *Quarantine) Judge(received driver.Instant, s Store) Verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ttl = max(q.ttl, s.MaxTTL)
	switch {
	case s.Server != "" && s.Stored == s.Server:
		q.server, q.claim = "", ""
		return Verdict{Step: Blessed}
	case s.Server == "" || q.ttl <= 0:
		return Verdict{Step: Wait, Claim: s.Claim, For: time.Minute}
	}
	q.server, q.empty = s.Server, s.Stored == ""
	switch {
	case !claims(s.Claim, s.Server):
		return Verdict{Step: ClaimIt, Claim: newClaim(s.Server)}
	case s.Claim != q.claim && s.Unproven:
		return Verdict{Step: ClaimIt, Claim: s.Claim} // another tag would begin the counts of others again
	case s.Claim != q.claim:
		q.claim, q.since = s.Claim, received
	}
	left := q.since.Add(q.ttl).Sub(received)
	if left > 0 {
		return Verdict{Step: Wait, Claim: q.claim, For: left}
	}
	return Verdict{Step: Bless, Claim: q.claim}
}

// Left returns for how long the store will not be used yet, at least, and reports false if the
// newest answer was that of a blessed store, or there was none. When the time is 0, a backend may
// bless the store. It is for reports: only Judge decides.
func (q *Quarantine) Left(now driver.Instant) (time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.server == "":
		return 0, false
	case !claims(q.claim, q.server):
		return q.ttl, true
	}
	return max(q.since.Add(q.ttl).Sub(now), 0), true
}

// Err returns why nothing is granted, with the time that is left, as an ErrUnavailable; nil if the
// newest answer was that of a blessed store, or there was none.
func (q *Quarantine) Err(now driver.Instant) error {
	left, waits := q.Left(now)
	if !waits {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	what := "has failed over or lost data"
	if q.empty {
		what = "is new or has lost its data"
	}
	return fmt.Errorf("%w: it %s, and grants nothing for another %s, until all earlier holds have ended",
		driver.ErrUnavailable, what, left.Round(time.Millisecond))
}

// newClaim returns a claim of a life: the life, a space, and a tag that no other claim has.
func newClaim(life string) string { return life + " " + rand.Text() }

// claims reports whether a claim is one of a life. The life itself may contain spaces.
func claims(claim, life string) bool {
	i := strings.LastIndexByte(claim, ' ')
	return i > 0 && claim[:i] == life && i+1 < len(claim)
}

package observed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// ErrNotWhole is returned by Admission.Do for a server that does not know the life of the store now, such
// as a standby. It is asked again.
var ErrNotWhole = errors.New("the store cannot be used yet")

// Admission is how an opening waits until its store may be used.
type Admission struct {
	Quarantine *Quarantine
	Clock      driver.Clock
	Logger     *slog.Logger
	Service    string // begins what is logged

	// Observer is set for what may not write: it waits until others have blessed the store.
	Observer bool

	// Do carries out one request: what to write, if anything, and a look at the store after it, in one
	// step. It repeats the request until it is answered, or returns an error of package driver.
	Do func(ctx context.Context, w Write) (Shown, error)
}

// A Write is what one request of an admission writes. Each compares the life of the server, and what is
// stored, in the same step.
type Write struct {
	Kind   WriteKind
	Server string // the life of the server, as the look before has shown it
	Before string // the claim that is stored; to be compared

	// Claim is to be stored, for Claims. A claim that differs from Before needs a tag of each attempt's
	// own, behind this one: one that is late would bring back what others have counted before. It is to be
	// compared, for Blesses.
	Claim string

	// Sum is what was counted for the claim; to be compared, for Counts. Added is added to it.
	Sum, Added time.Duration
}

// WriteKind is the kind of a Write.
type WriteKind uint8

// The kinds. The zero one writes nothing.
const (
	Looks WriteKind = iota
	Claims
	Counts
	Blesses
)

// Shown is what a request shows.
type Shown struct {
	Store

	// Counted is for how long the stored claim was counted, by all programs together. What was
	// counted already need not be counted again.
	Counted time.Duration
}

// Admit returns when the store is whole. Where it is not, it takes part in the quarantine, unless it is
// for an observer.
//
// What was counted is added to the store every second, by compare-and-set, so that programs which give up
// and start again come to an end together.
func (a *Admission) Admit(ctx context.Context) error {
	var last Shown
	var write Write
	var count struct { // what is not added to the store yet: since the answer that has shown the sum so far
		claim string
		sum   time.Duration
		since driver.Instant
	}
	told := false
	for {
		if write.Kind == Looks && count.claim != "" && !a.Observer {
			write = Write{
				Kind: Counts, Server: last.Server, Before: count.claim, Sum: count.sum,
				Added: a.Clock.Now().Sub(count.since).Truncate(time.Millisecond),
			}
		}
		shown, err := a.Do(ctx, write)
		pause := 250 * time.Millisecond
		write = Write{}
		verdict := Verdict{}
		if err == nil {
			last = shown
			received := a.Clock.Now()
			s := shown.Store
			s.MaxTTL = max(s.MaxTTL-shown.Counted, time.Millisecond)
			verdict = a.Quarantine.Judge(received, s)
			if verdict.Step == Blessed {
				return nil
			}
			if verdict.Step == Wait && (count.claim != verdict.Claim || count.sum != shown.Counted) {
				count.claim, count.sum, count.since = verdict.Claim, shown.Counted, received
			}
		}
		why := a.Quarantine.Err(a.Clock.Now())
		switch {
		case err != nil && why != nil && errors.Is(err, driver.ErrUnavailable):
			return fmt.Errorf("%w: %w", why, err)
		case err != nil && !errors.Is(err, ErrNotWhole):
			return err
		case why != nil && !told:
			told = true
			a.Logger.WarnContext(ctx, a.Service+": nothing is granted for now", "reason", why.Error())
		}
		if err == nil && !a.Observer {
			switch verdict.Step {
			case ClaimIt:
				write = Write{Kind: Claims, Server: last.Server, Before: last.Claim, Claim: verdict.Claim}
				pause = 0
			case Bless:
				write = Write{Kind: Blesses, Server: last.Server, Claim: verdict.Claim}
				pause = 0
			case Wait, Blessed:
				pause = min(verdict.For, time.Second)
			}
		}
		if pause == 0 || driver.Sleep(ctx, a.Clock, pause) {
			continue
		}
		return fmt.Errorf("%w: %w", driver.ContextError(ctx), cmp.Or(why, err, ErrNotWhole))
	}
}

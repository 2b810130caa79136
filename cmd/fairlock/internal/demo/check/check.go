package check

import (
	"fmt"
	"strings"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/stamp"
)

// Overlaps returns one sentence for every hold that began while another one
// was live.
func Overlaps(grants []Grant) []string {
	var bad []string
	var live Grant // of those before, the one that ends last
	for i, g := range sorted(grants) {
		if i > 0 && (live.How == Open || live.End > g.At) {
			bad = append(bad, fmt.Sprintf("%s held with token %d while %s held with token %d", g.Worker, g.Token, live.Worker, live.Token))
		}
		if i == 0 || live.How != Open && (g.How == Open || g.End > live.End) {
			live = g
		}
	}
	return bad
}

// Order returns one sentence for every grant that was out of the order of the
// store's places. It is asked in three ways, because none of them sees all:
// tokens must rise from grant to grant; whoever held must have been first in
// the line when the store was asked; and nobody may have been passed, that is,
// an entry that was granted must not be gone before one that stood ahead of it.
func Order(grants []Grant, entries []Entry, heads []Head) []string {
	var bad []string
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }

	granted := make(map[int64]Grant, len(grants))
	for i, all := 0, sorted(grants); i < len(all); i++ {
		if g := all[i]; i > 0 && g.Token <= all[i-1].Token {
			say("%s was granted token %d after %s was granted %d", g.Worker, g.Token, all[i-1].Worker, all[i-1].Token)
		}
		granted[all[i].Token] = all[i]
	}
	for _, h := range heads {
		if h.First != 0 && h.First < h.Token {
			say("%s held with token %d while %d stood ahead of it in the store", granted[h.Token].Worker, h.Token, h.First)
		}
	}
	known := make(map[int64]bool, len(entries))
	var ahead Entry // of those before, the one that is gone last
	for i, e := range byToken(entries) {
		known[e.Token] = true
		if g, ok := granted[e.Token]; ok && i > 0 && gone(ahead) > gone(e) {
			say("%s passed: granted token %d and gone while %d stood ahead of it in the store", g.Worker, e.Token, ahead.Token)
		}
		if i == 0 || gone(e) > gone(ahead) {
			ahead = e
		}
	}
	for _, g := range sorted(grants) {
		if !known[g.Token] {
			say("%s was granted token %d, which the store never reported", g.Worker, g.Token)
		}
	}
	return bad
}

// LostUpdates returns one sentence for every write that let in a lower token
// after a higher, or that was not made of the balance before it.
func LostUpdates(writes []ledger.Entry) []string {
	var bad []string
	var last ledger.Entry
	for i, w := range writes {
		if i > 0 && w.Token < last.Token {
			bad = append(bad, fmt.Sprintf("the ledger let in token %d of %s after %d of %s", w.Token, w.Worker, last.Token, last.Worker))
		}
		if w.Balance != last.Balance+1 {
			bad = append(bad, fmt.Sprintf("%s wrote balance %d over %d: an update was lost", w.Worker, w.Balance, last.Balance))
		}
		last = w
	}
	return bad
}

// Refusals returns one sentence for every refusal that was not to be, and one
// if the late write of the stopped worker was not refused. Refused may be the
// token that was stopped, and, of other holds that had been lost, first touches
// and what the same careless worker wrote. A careful worker whose write is
// refused was let down by its hold: that had said that it was valid.
func Refusals(refused []ledger.Refusal, s Stop, grants []Grant) []string {
	lost := map[int64]bool{}
	for _, g := range grants {
		lost[g.Token] = g.How == Lost
	}
	var bad []string
	late := false
	for _, r := range refused {
		switch {
		case s.Token != 0 && r.Token == s.Token:
			late = late || r.Write
		case lost[r.Token] && (!r.Write || r.Worker == s.Worker):
		default:
			bad = append(bad, fmt.Sprintf("the ledger refused token %d of %s, although it was not notified that it had lost the lock", r.Token, r.Worker))
		}
	}
	if !late {
		bad = append(bad, "the late write of the stopped worker was not refused")
	}
	return bad
}

// Faults returns one sentence for everything that keeps a fault from having
// been one, or the line from having moved on after it.
func Faults(t Terms, k Kill, s Stop, grants []Grant) []string {
	return append(killed(k, grants), stopped(t, s, grants)...)
}

func killed(k Kill, grants []Grant) []string {
	if k.Token == 0 {
		return []string{"no holder was killed"}
	}
	_, moved := Moved(grants, k.At)
	return failures(
		claim{k.Reaped != 0, k.Worker + " was not seen to die of SIGKILL"},
		claim{k.Present, k.Worker + " was not in the queue any more when it was killed: nothing was left to expire"},
		claim{k.Gone != 0, "the place of " + k.Worker + ", which was killed, was not freed"},
		claim{moved, "the queue did not move on after " + k.Worker + " was killed"},
	)
}

func stopped(t Terms, s Stop, grants []Grant) []string {
	if s.Token == 0 {
		return []string{"no holder was stopped"}
	}
	asleep := func(at stamp.Stamp) bool { return at != 0 && (s.Woken == 0 || at < s.Woken) }
	next, _ := After(grants, s.At)
	return failures(
		claim{s.Stopped != 0, s.Worker + " was not seen to be stopped"},
		claim{s.Woken != 0, s.Worker + " was not woken"},
		claim{asleep(s.Gone), "the " + t.Lease + " of " + s.Worker + " did not run out while it was stopped"},
		claim{asleep(next.At), "the queue did not move on while " + s.Worker + " was stopped"},
		claim{s.Late, s.Worker + " did not find its lock lost when it was woken"},
		claim{s.Valid == 0, fmt.Sprintf("%s, just woken, still called its hold valid for %s", s.Worker, s.Valid)},
	)
}

// claim is something that has to be so, and what to say if it is not.
type claim struct {
	ok       bool
	sentence string
}

func failures(claims ...claim) []string {
	var bad []string
	for _, c := range claims {
		if !c.ok {
			bad = append(bad, c.sentence)
		}
	}
	return bad
}

// Moved is how long after a moment the next hold began, and false if none did.
func Moved(grants []Grant, at stamp.Stamp) (time.Duration, bool) {
	g, ok := After(grants, at)
	return g.At.Sub(at), ok
}

// Left returns one sentence for each kind of thing that stayed behind.
func Left(t Terms, l Leftovers) []string {
	var bad []string
	if n := len(l.Keys); n != 0 {
		bad = append(bad, fmt.Sprintf("left behind in %s, %ss: %d: %s", t.Service, t.Key, n, strings.Join(l.Keys[:min(n, 5)], " ")))
	}
	if l.Leases != 0 {
		bad = append(bad, fmt.Sprintf("left behind in %s, %ss: %d", t.Service, t.Lease, l.Leases))
	}
	if l.Processes != 0 {
		bad = append(bad, fmt.Sprintf("left behind, processes: %d", l.Processes))
	}
	return bad
}

package check

import (
	"fmt"
	"strings"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
)

// Overlaps returns one sentence for every hold that began while another hold was live.
func Overlaps(grants []Grant) []string {
	var bad []string
	var live Grant // of the holds before, the one that ends last
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

// Order returns one sentence for every grant that was out of order. The order is that of
// the entries in the service. Three checks look at it, because none of them sees
// everything:
//
//   - Tokens rise from grant to grant.
//   - When the service was asked for its first entry, no entry was ahead of the holder's.
//   - No entry that was granted was deleted before an entry that was ahead of it.
func Order(grants []Grant, entries []Entry, heads []Head) []string {
	var bad []string
	addf := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }

	granted := make(map[int64]Grant, len(grants))
	for i, all := 0, sorted(grants); i < len(all); i++ {
		g := all[i]
		if i > 0 && g.Token <= all[i-1].Token {
			addf("%s was granted token %d after %s was granted %d", g.Worker, g.Token, all[i-1].Worker, all[i-1].Token)
		}
		granted[all[i].Token] = all[i]
	}
	for _, h := range heads {
		if h.First != 0 && h.First < h.Token {
			addf("%s held with token %d while %d was ahead of it in the service", granted[h.Token].Worker, h.Token, h.First)
		}
	}
	known := make(map[int64]bool, len(entries))
	var ahead Entry // of the entries before, the one that was deleted last
	for i, e := range byToken(entries) {
		known[e.Token] = true
		if g, ok := granted[e.Token]; ok && i > 0 && deletion(ahead) > deletion(e) {
			addf("%s overtook: token %d was granted and deleted while %d was ahead of it in the service", g.Worker, e.Token, ahead.Token)
		}
		if i == 0 || deletion(e) > deletion(ahead) {
			ahead = e
		}
	}
	for _, g := range sorted(grants) {
		if !known[g.Token] {
			addf("%s was granted token %d, which the service never reported", g.Worker, g.Token)
		}
	}
	return bad
}

// LostUpdates returns one sentence for every write with a lower token than the write
// before, and for every write whose balance is not the one before plus 1.
func LostUpdates(writes []ledger.Entry) []string {
	var bad []string
	var last ledger.Entry
	for i, w := range writes {
		if i > 0 && w.Token < last.Token {
			bad = append(bad, fmt.Sprintf("the ledger accepted token %d of %s after %d of %s", w.Token, w.Worker, last.Token, last.Worker))
		}
		if w.Balance != last.Balance+1 {
			bad = append(bad, fmt.Sprintf("%s wrote balance %d over %d: an update was lost", w.Worker, w.Balance, last.Balance))
		}
		last = w
	}
	return bad
}

// Refusals returns one sentence for every refusal that is not expected, and one if the
// late write of the stopped worker was not refused. Expected are refused requests with the
// token of the stopped hold, refused reads with the tokens of other lost holds, and refused
// writes with the tokens of other lost holds of the same careless worker. A refused write of
// a careful worker is a violation, because its hold had reported itself valid.
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

// Faults returns one sentence for every reason why a fault did not take effect, or why the
// queue did not move on after it.
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
		claim{k.Deleted != 0, "the entry of " + k.Worker + ", which was killed, was not deleted"},
		claim{moved, "the queue did not move on after " + k.Worker + " was killed"},
	)
}

func stopped(t Terms, s Stop, grants []Grant) []string {
	if s.Token == 0 {
		return []string{"no holder was stopped"}
	}
	whileStopped := func(at stamp.Stamp) bool { return at != 0 && (s.Woken == 0 || at < s.Woken) }
	next, _ := After(grants, s.At)
	return failures(
		claim{s.Stopped != 0, s.Worker + " was not seen to be stopped"},
		claim{s.Woken != 0, s.Worker + " was not woken"},
		claim{whileStopped(s.Deleted), "the " + t.Lease + " of " + s.Worker + " did not run out while it was stopped"},
		claim{whileStopped(next.At), "the queue did not move on while " + s.Worker + " was stopped"},
		claim{s.Late, s.Worker + " did not find its lock lost when it was woken"},
		claim{s.Valid == 0, fmt.Sprintf("%s, just woken, still called its hold valid for %s", s.Worker, s.Valid)},
	)
}

// claim is a condition, and the sentence for the case that it does not hold.
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

// Moved returns the time from at to the next grant, and false if there is none.
func Moved(grants []Grant, at stamp.Stamp) (time.Duration, bool) {
	g, ok := After(grants, at)
	return g.At.Sub(at), ok
}

// LeftBehind returns one sentence for each kind of thing that was left behind.
func LeftBehind(t Terms, l Leftovers) []string {
	var bad []string
	n := len(l.Keys)
	if n != 0 {
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

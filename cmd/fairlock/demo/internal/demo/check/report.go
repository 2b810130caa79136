package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is the result of a demonstration.
type Report struct {
	Terms       Terms
	Grants      int
	Causes      []string // why the demonstration did not finish: all else may follow from it
	Order       []string // each list: one sentence per violation
	Overlaps    []string
	LostUpdates []string
	Other       []string // faults without effect, wrong refusals, leftovers

	Writes    int
	Refused   int   // refused writes
	High      int64 // the highest token that the ledger had seen when it refused the late write
	Kill      Kill
	Stop      Stop
	KillMoved time.Duration // from the signal to the next hold
	StopMoved time.Duration

	Handoffs int // the number of hand-offs that were measured
	P50, P99 time.Duration

	Leftovers Leftovers
}

// Kept reports whether everything was as promised.
func (r *Report) Kept() bool {
	return len(r.Causes)+len(r.Order)+len(r.Overlaps)+len(r.LostUpdates)+len(r.Other) == 0
}

// Violations returns all sentences, the causes first.
func (r *Report) Violations() []string {
	return slices.Concat(r.Causes, r.Overlaps, r.Order, r.LostUpdates, r.Other)
}

// Verify checks a history.
func Verify(h *History) *Report {
	r := &Report{
		Terms:       h.Terms,
		Grants:      len(h.Grants),
		Order:       Order(h.Grants, h.Entries, h.Heads),
		Overlaps:    Overlaps(h.Grants),
		LostUpdates: LostUpdates(h.Writes),
		Other:       slices.Concat(Faults(h.Terms, h.Kill, h.Stop, h.Grants), Refusals(h.Refused, h.Stop, h.Grants), LeftBehind(h.Terms, h.Leftovers)),
		Writes:      len(h.Writes),
		Kill:        h.Kill,
		Stop:        h.Stop,
		Leftovers:   h.Leftovers,
	}
	if len(h.Writes) == 0 {
		r.Other = append(r.Other, "no worker wrote the ledger")
	}
	if len(h.Heads) == 0 {
		r.Other = append(r.Other, "the service was never asked for the first entry")
	}
	for _, f := range h.Refused {
		if !f.Write {
			continue
		}
		r.Refused++
		if f.Token == h.Stop.Token {
			r.High = f.Highest
		}
	}
	r.KillMoved, _ = Moved(h.Grants, h.Kill.At)
	r.StopMoved, _ = Moved(h.Grants, h.Stop.At)
	d := Handoffs(h.Grants)
	r.Handoffs = len(d)
	r.P50, r.P99 = Quantiles(d)
	if r.Handoffs == 0 {
		r.Other = append(r.Other, "no hand-off was measured")
	}
	return r
}

// Handoffs returns the times from each call of Unlock to the next grant, if the next holder
// was already waiting at the call.
func Handoffs(grants []Grant) []time.Duration {
	var all []time.Duration
	for i, gs := 1, sorted(grants); i < len(gs); i++ {
		prev, g := gs[i-1], gs[i]
		waited := g.Joined != 0 && g.Joined < prev.End
		d := g.At.Sub(prev.End)
		if prev.How == Released && waited && d >= 0 {
			all = append(all, d)
		}
	}
	return all
}

// Quantiles returns the median and the 99th percentile, to three digits.
func Quantiles(d []time.Duration) (p50, p99 time.Duration) {
	if len(d) == 0 {
		return 0, 0
	}
	h := hdrhistogram.New(1, int64(time.Minute), 3)
	for _, x := range d {
		_ = h.RecordValue(min(int64(x), int64(time.Minute))) // cannot fail: it is not above the maximum
	}
	return time.Duration(h.ValueAtQuantile(50)), time.Duration(h.ValueAtQuantile(99))
}

// byToken returns the entries in the order of the queue.
func byToken(entries []Entry) []Entry {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Token, b.Token) })
	return entries
}

// deletion returns the revision at which an entry was deleted, the maximum if it was not.
func deletion(e Entry) int64 {
	if e.Deleted == 0 {
		return math.MaxInt64
	}
	return e.Deleted
}

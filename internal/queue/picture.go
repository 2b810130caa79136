package queue

import (
	"cmp"
	"slices"

	"github.com/fairlock/fairlock/session/driver"
)

// picture is what is known of a queue: entries in order of place, and the gaps between
// them, where entries that are not known may stand.
//
// It can be old, but only in one way: it may show entries that are gone, and lack marks
// that they have. It lacks no entry where it shows no gap, with one exception (foreignWriters).
// So an entry that may hold by the picture may hold in the queue.
type picture struct {
	// es are in order of place. Only entries of other programs can share a place. Each value
	// is the picture's own, and the Entry of an own entry points to the same one.
	es []*driver.Entry

	// gaps has one element for each of es. gaps[i] means that entries that are not known may
	// stand between es[i-1] and es[i]. What stands behind the last one is never known.
	gaps []bool
}

// at returns the index of the first entry at or behind a place.
func (p *picture) at(place int64) int {
	i, _ := slices.BinarySearchFunc(p.es, place, func(e *driver.Entry, place int64) int { return cmp.Compare(e.Place, place) })
	return i
}

// index returns the index of an entry, -1 if it is not known. A key that was used again
// is another entry, and so is another program's with the same place.
func (p *picture) index(ref driver.Ref) int {
	for i := p.at(ref.Place); i < len(p.es) && p.es[i].Place == ref.Place; i++ {
		if p.es[i].Ref == ref {
			return i
		}
	}
	return -1
}

// from returns where the entries begin that are known without a gap up to es[i].
func (p *picture) from(i int) int {
	for i > 0 && i < len(p.es) && !p.gaps[i] {
		i--
	}
	return i
}

// ahead returns the entries right before es[i] that are known without a gap, and whether
// no entry stands before them.
func (p *picture) ahead(i int) (es []*driver.Entry, complete bool) {
	from := p.from(i)
	return p.es[from:i], !p.gaps[from]
}

// remove takes out an entry that is gone. What may stand right before it stands right
// before the one behind it then.
func (p *picture) remove(i int) {
	if p.gaps[i] && i+1 < len(p.es) {
		p.gaps[i+1] = true
	}
	if i == 0 { // as in a hand-off, which must not move all that is behind
		p.es[0] = nil
		p.es, p.gaps = p.es[1:], p.gaps[1:]
		return
	}
	p.es, p.gaps = slices.Delete(p.es, i, i+1), slices.Delete(p.gaps, i, i+1)
}

// cut takes out all entries before es[i], because no entry is ahead of that one.
func (p *picture) cut(i int) {
	clear(p.es[:i])
	p.es, p.gaps = p.es[i:], p.gaps[i:]
	p.gaps[0] = false
}

// forget takes out those of the first n entries that are not to be kept, and leaves gaps in
// their places. Otherwise a picture would grow for as long as own entries come and go behind
// a lock that stays held: nothing reports the end of an entry that no own entry waits for.
func (p *picture) forget(n int, keep func(*driver.Entry) bool) {
	k, gap := 0, false
	for i, e := range p.es[:n] {
		gap = gap || p.gaps[i]
		if !keep(e) {
			gap = true
			continue
		}
		p.es[k], p.gaps[k] = e, gap
		k, gap = k+1, false
	}
	p.gaps[n] = p.gaps[n] || gap
	p.es, p.gaps = slices.Delete(p.es, k, n), slices.Delete(p.gaps, k, n)
}

// splice takes in a view of all entries up to a place, or, if it is not complete, of
// those from its first entry on. It returns which part of p.es that is now, and what was
// known there and is gone.
//
// What is known of an entry in the view stays: marks are never removed, and what stands
// right before the first entry of the view is known from earlier, or not at all. Data and
// details are not kept, because no rule looks at them, and they may be long.
func (p *picture) splice(view []driver.Entry, complete bool, upto int64) (lo, hi int, gone []*driver.Entry) {
	hi = p.at(upto + 1)
	switch {
	case complete:
	case len(view) == 0:
		return hi, hi, nil
	default:
		lo = min(p.at(view[0].Place), hi)
	}
	es, gaps := make([]*driver.Entry, len(view)), make([]bool, len(view))
	k := lo // the first entry of the picture that no entry of the view was compared with
	for i := range view {
		e := &view[i]
		for ; k < hi && p.es[k].Place <= e.Place && p.es[k].Ref != e.Ref; k++ {
			gone = append(gone, p.es[k])
		}
		known := k < hi && p.es[k].Ref == e.Ref
		gaps[i] = i == 0 && !complete && (!known || p.gaps[k])
		if !known {
			es[i] = new(*e)
			es[i].Data, es[i].Detail = nil, nil
			continue
		}
		es[i] = p.es[k]
		es[i].Marks |= e.Marks
		if es[i].Token == 0 { // a read has shown an own entry before its join was answered
			es[i].Token, es[i].Session = e.Token, e.Session
		}
		k++
	}
	gone = append(gone, p.es[k:hi]...)
	p.es, p.gaps = slices.Replace(p.es, lo, hi, es...), slices.Replace(p.gaps, lo, hi, gaps...)
	return lo, lo + len(es), gone
}

// foreignWriters are the places at which writers of other programs were seen, since a view of all
// up to the last of them has shown none. Some programs make a reader of a writer by a second entry
// with the same place, of which no event comes. So behind such a place the picture may lack an
// entry where it shows no gap, and only a view of all that are ahead grants.
type foreignWriters struct {
	from, upto int64 // the first and the last place; 0: none was seen
}

// see takes in the entries of a view.
func (f *foreignWriters) see(view []driver.Entry) {
	for i := range view {
		e := &view[i]
		if !e.Foreign || e.Shares() {
			continue
		}
		if f.from == 0 || e.Place < f.from {
			f.from = e.Place
		}
		f.upto = max(f.upto, e.Place)
	}
}

// ahead reports whether one was seen ahead of an entry.
func (f *foreignWriters) ahead(en *Entry) bool { return f.from != 0 && f.from < en.Place }

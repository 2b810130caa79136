package etcdbackend

import (
	"maps"
	"sync"

	"github.com/fairlock/fairlock/session/driver"
)

// lines is what a session remembers of the lines that it has entries in, and
// nothing of others.
//
// A slot is the number in an entry's key. It may be used again only when it is
// certain that the key is gone and that no request of ours can still make it:
// while its entry lives, while it is being made, and while the outcome of
// making it is unknown, it is taken.
type lines struct {
	mu     sync.Mutex
	m      map[string]*line
	unsure map[driver.Ref]struct{} // a Leave of it was not answered
}

type line struct {
	taken  map[int]*mine // by slot
	free   []int
	next   int
	depth  int64 // how many entries there were when that was last told
	valued bool  // there are entries with values, which looks leave where they are
}

// mine is what a session remembers of an entry of its own.
type mine struct {
	place   int64 // 0 until that is known
	meta    []byte
	written int64         // when its key was last written, as far as we know
	mark    mark          // what that has made of it
	numbers map[int]int64 // those that were asked for, with the token of the one it has
	granted []byte        // the record of its grant, if one may have been written
	leaving bool          // Leave was called, and sees to what hangs on it
}

// take reserves a slot.
func (ls *lines) take(name string) int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.m[name]
	if l == nil {
		if ls.m == nil {
			ls.m = make(map[string]*line)
		}
		l = &line{taken: make(map[int]*mine, 1)}
		ls.m[name] = l
	}
	slot := l.next
	if n := len(l.free); n > 0 {
		slot, l.free = l.free[n-1], l.free[:n-1]
	} else {
		l.next++
	}
	l.taken[slot] = &mine{}
	return slot
}

// fill notes which entry a taken slot has become, and what it says of itself.
func (ls *lines) fill(name string, slot int, place, depth int64, meta []byte) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.m[name]; l != nil {
		l.taken[slot] = &mine{place: place, written: place, meta: meta}
		l.depth = depth
	}
}

// release frees a slot, if the entry at place is still what it is taken by: the
// end of an entry may be learned twice.
func (ls *lines) release(name string, slot int, place int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.m[name]
	if l == nil {
		return
	}
	if at := l.taken[slot]; at == nil || at.place != place {
		return
	}
	delete(l.taken, slot)
	l.free = append(l.free, slot)
	if len(l.taken) == 0 {
		delete(ls.m, name)
	}
}

// gone frees the slot of an own entry that is known to be gone.
func (ls *lines) gone(lay layout, ref driver.Ref) {
	if slot, ok := lay.slot(ref); ok {
		ls.release(ref.Line, slot, ref.Place)
	}
}

// mine returns what is known of an own entry; nothing, if it is not there.
func (ls *lines) mine(lay layout, ref driver.Ref) mine {
	m := mine{}
	ls.note(lay, ref, func(known *mine) {
		m = *known
		m.numbers = maps.Clone(known.numbers)
	})
	return m
}

// note changes what is known of an own entry, if it is there.
func (ls *lines) note(lay layout, ref driver.Ref, f func(*mine)) {
	slot, ok := lay.slot(ref)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.m[ref.Line]; ok && l != nil {
		if m := l.taken[slot]; m != nil && m.place == ref.Place {
			f(m)
		}
	}
}

// depth returns how long the line was when last seen, and false if that is not
// known, or if there are values in it.
func (ls *lines) depth(name string) (int64, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.m[name]
	if l == nil || l.valued {
		return 0, false
	}
	return l.depth, true
}

// setValued notes that there are values in the line.
func (ls *lines) setValued(name string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.m[name]; l != nil {
		l.valued = true
	}
}

// setDepth notes how long the line is.
func (ls *lines) setDepth(name string, depth int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.m[name]; l != nil {
		l.depth = depth
	}
}

// setUnsure notes whether a Leave of an entry is without an answer.
func (ls *lines) setUnsure(ref driver.Ref, unsure bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !unsure {
		delete(ls.unsure, ref)
		return
	}
	if ls.unsure == nil {
		ls.unsure = make(map[driver.Ref]struct{})
	}
	ls.unsure[ref] = struct{}{}
}

// isUnsure says that an earlier Leave of the entry was not answered.
func (ls *lines) isUnsure(ref driver.Ref) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	_, ok := ls.unsure[ref]
	return ok
}

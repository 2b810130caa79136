package etcdbackend

import (
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
	taken map[int]int64 // slot to the place of its entry, 0 until that is known
	free  []int
	next  int
	depth int64 // how many entries there were when that was last told
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
		l = &line{taken: make(map[int]int64, 1)}
		ls.m[name] = l
	}
	slot := l.next
	if n := len(l.free); n > 0 {
		slot, l.free = l.free[n-1], l.free[:n-1]
	} else {
		l.next++
	}
	l.taken[slot] = 0
	return slot
}

// fill notes which entry a taken slot has become.
func (ls *lines) fill(name string, slot int, place, depth int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.m[name]; l != nil {
		l.taken[slot] = place
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
	if at, ok := l.taken[slot]; !ok || at != place {
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
	p := lay.prefix(ref.Line)
	if len(ref.Key) < len(p) {
		return
	}
	if k, ok := parseEntry(ref.Key[len(p):]); ok {
		ls.release(ref.Line, k.slot, ref.Place)
	}
}

// depth returns how long the line was when last seen, and false if that is not
// known.
func (ls *lines) depth(name string) (int64, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.m[name]
	if l == nil {
		return 0, false
	}
	return l.depth, true
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

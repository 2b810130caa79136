package zkbackend

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/session/driver"
)

// The name of an entry's node is all that a listing shows of it. So it has what other clients must know
// to order the queue:
//
//	0123456789abcdef x v w3 - lock- 0000000042
//	guid             | | |    |      seq
//	                 | | |    marker
//	                 | | weight, of a semaphore's request
//	                 | valued
//	                 sealed
//
// (without the spaces; x, v and w are there only if they hold, and Kazoo's markers have no "-" before
// them). Programs of other kinds find their own marker in it and order by the number behind it.

// The markers before the sequence number in the names of entries: those of this backend,
// Curator, Kazoo and go-zookeeper. A child with none of them is no entry.
const (
	markLock      = "lock-"     // Curator and go-zookeeper: mutex
	markLatch     = "latch-"    // Curator: candidate
	markRead      = "__READ__"  // Curator: reader
	markWrite     = "__WRIT__"  // Curator: writer
	markKazoo     = "__lock__"  // Kazoo: mutex, writer
	markKazooRead = "__rlock__" // Kazoo: reader
)

// guidLen is how many hex digits our random part has. 64 bits: two entries of one queue never meet.
const guidLen = 16

// maxSequence is the last number that the servers assign.
const maxSequence int64 = math.MaxInt32

// sequenceGuard is the first of a folder's last numbers. ZooKeeper counts a folder's children in
// 32 bits. At the end, children that are made one by one all get 2147483647, and those that are
// made together get negative numbers, so the order of numbers means nothing any more
// (PrepRequestProcessor and DataTree.createNode of 3.8). A folder that is made anew counts from 0.
//
// So a join that gets one of the last million numbers deletes its entry and is refused. The entries
// with lower numbers are served in their order, and then the folder is empty. The servers remove an
// empty container within a minute by default, or an operator deletes it: docs/runbooks.md has the
// steps.
//
// Not handled: to wait here until the queue is empty, and to delete the folder then. At a thousand
// acquisitions a second it takes 25 days to come here, and a folder that has been idle for a minute
// in all that time has begun anew by itself.
const sequenceGuard = maxSequence - 1<<20

// isLast reports whether an entry has one of the last numbers.
func (n entryName) isLast() bool { return n.seq < 0 || n.seq >= sequenceGuard }

// entryName is what the name of an entry's node contains. The name never changes, so neither does this.
type entryName struct {
	// text is the whole name, and marker one of those above.
	text   string
	marker string

	// seq is the number that the servers have assigned. It orders the queue, and is negative only after
	// an overflow.
	seq int64

	// guid is the random part of our names, the same for all entries of one attempt to join. It is "" if
	// the entry is foreign; then sealed and valued are false, and weight is 0.
	guid string

	// sealed: only its owner can write it, and a change of it means its release: see seal.go.
	sealed bool

	// valued: its data is a value for other programs, not the owner's description.
	valued bool

	// mode is Exclusive unless the marker or the weight shows another one. weight is 0 unless it is
	// Weighted.
	mode   driver.Mode
	weight int64
}

// parseName parses the name of a child. It returns false if the child is no entry. The number
// follows the last marker, as in Curator and go-zookeeper. It may be negative after an
// overflow. The servers write it with at least ten characters, of which a sign is one: "-" and nine
// digits, or more.
func parseName(text string) (entryName, bool) {
	const width = 10
	digits := len(text)
	for digits > 0 && text[digits-1] >= '0' && text[digits-1] <= '9' {
		digits--
	}
	wide := len(text) - digits
	if wide != width && wide != width-1 {
		return entryName{}, false
	}
	n := entryName{text: text}
	n.seq, _ = strconv.ParseInt(text[digits:], 10, 64) // ten digits always fit
	rest := text[:digits]
	for _, m := range []string{markLock, markLatch, markWrite, markRead, markKazoo, markKazooRead} {
		before, ok := strings.CutSuffix(rest, m)
		if !ok || wide != width {
			before, ok = strings.CutSuffix(rest, m+"-")
			if !ok {
				continue
			}
			n.seq = -n.seq
		}
		n.marker = m
		if m == markRead || m == markKazooRead {
			n.mode = driver.Shared
		}
		n.readOwn(before)
		return n, true
	}
	return entryName{}, false
}

// readOwn parses the part before the marker, if it has the form of our names: the random part,
// "x" if the entry is sealed, "v" if it has a value, and "w" with the weight of a semaphore's
// request. Anything else leaves the entry foreign: it counts as exclusive, which only delays others. A
// form that prefix never makes is no form of ours, as a sealed request or a weight with a leading zero.
func (n *entryName) readOwn(before string) {
	before = strings.TrimSuffix(before, "-")
	if len(before) < guidLen || strings.ContainsFunc(before[:guidLen], func(r rune) bool { return !isHex(r) }) {
		return
	}
	rest, sealed := strings.CutPrefix(before[guidLen:], "x")
	rest, valued := strings.CutPrefix(rest, "v")
	weight, weighted := strings.CutPrefix(rest, "w")
	switch {
	case weighted:
		w, err := strconv.ParseInt(weight, 10, 64)
		if err != nil || w < 0 || strconv.FormatInt(w, 10) != weight || sealed {
			return
		}
		n.mode, n.weight = driver.Weighted, w
	case rest != "":
		return
	}
	n.guid, n.sealed, n.valued = before[:guidLen], sealed, valued
}

// prefix is the name of a new entry up to its sequence number. sealed is whether its session has a seal.
func (l layout) prefix(guid string, sealed bool, req driver.JoinRequest) string {
	n := entryName{guid: guid, mode: req.Mode, weight: req.Weight, valued: req.Valued, marker: l.marker(req.Mode, req.Family)}
	n.sealed = sealed && n.sealable()
	return n.prefix()
}

// marker returns the marker of a new entry.
//
//	layout    mode        family      marker
//	kazoo     Shared                  __rlock__
//	kazoo     another                 __lock__
//	curator   Shared                  __READ__
//	curator   Exclusive   ReadWrite   __WRIT__
//	curator   Exclusive   Latch       latch-
//	curator   otherwise               lock-
func (l layout) marker(mode driver.Mode, f driver.Family) string {
	switch {
	case l.kind == LayoutKazoo && mode == driver.Shared:
		return markKazooRead
	case l.kind == LayoutKazoo:
		return markKazoo
	case mode == driver.Shared:
		return markRead
	case mode == driver.Exclusive && f == driver.FamilyReadWrite:
		return markWrite
	case mode == driver.Exclusive && f == driver.FamilyLatch:
		return markLatch
	}
	return markLock
}

func (n entryName) prefix() string {
	before := n.guid
	if n.sealed {
		before += "x"
	}
	if n.valued {
		before += "v"
	}
	if n.mode == driver.Weighted {
		before += "w" + strconv.FormatInt(n.weight, 10)
	}
	if n.marker == markKazoo || n.marker == markKazooRead {
		return before + n.marker
	}
	return before + "-" + n.marker
}

// downgrades reports whether the entry can get the mark Shared: it is a writer, or in Kazoo's
// layout perhaps one. Foreign entries never get it. Of such an entry a deletion can be a downgrade, so
// a watch reads the node.
func (n entryName) downgrades() bool {
	return n.guid != "" && n.mode == driver.Exclusive && !n.valued && (n.marker == markWrite || n.marker == markKazoo)
}

// unique reports whether no other entry ever gets the name. Ours have a random part, and so have those
// of Curator and go-zookeeper: "_c_" and the number of one call, with 32 hex digits. Kazoo's Lock makes
// all its entries with one number.
func (n entryName) unique() bool {
	number, protected := strings.CutPrefix(n.text, "_c_")
	number, _, _ = strings.Cut(number, n.marker)
	number = strings.ReplaceAll(number, "-", "")
	return n.guid != "" || protected && len(number) == 32 && !strings.ContainsFunc(number, func(r rune) bool { return !isHex(r) })
}

func isHex(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'f' }

// place returns the entry's place. ZooKeeper counts from 0, and a place is above 0.
func (n entryName) place() int64 { return n.seq + 1 }

// entry returns the entry, with what its name contains.
func (n entryName) entry(queue, folder string) driver.Entry {
	return driver.Entry{
		Ref:     driver.Ref{Queue: queue, Key: folder + "/" + n.text, Place: n.place()},
		Mode:    n.mode,
		Weight:  n.weight,
		Valued:  n.valued,
		Foreign: n.guid == "",
	}
}

// parseNames returns the entries among a folder's children, in order. Two have the same number
// only after an overflow, or when Curator makes a reader of a writer. They are in the order of
// their names, so that every client has the same order.
func parseNames(children []string) []entryName {
	names := make([]entryName, 0, len(children))
	for _, c := range children {
		n, ok := parseName(c)
		if ok {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b entryName) int {
		if a.seq != b.seq {
			return int(min(max(a.seq-b.seq, -1), 1))
		}
		return strings.Compare(a.text, b.text)
	})
	return names
}

// nameOf returns the name in the key of a Ref. It returns false if that is no entry, or one with
// another place.
func nameOf(ref driver.Ref) (entryName, bool) {
	_, text := split(ref.Key)
	n, ok := parseName(text)
	return n, ok && n.place() == ref.Place
}

// random returns n random bytes in hex.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

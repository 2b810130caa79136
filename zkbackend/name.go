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

// The markers that stand before the sequence number in the names of entries: ours,
// Curator's, Kazoo's and go-zookeeper's. A child with none of them is no entry.
const (
	markLock            = "lock-"     // Curator and go-zookeeper: mutex
	markLatch           = "latch-"    // Curator: candidate
	markRead            = "__READ__"  // Curator: reader
	markWrite           = "__WRIT__"  // Curator: writer
	markKazoo           = "__lock__"  // Kazoo: mutex, writer
	markKazooRead       = "__rlock__" // Kazoo: reader
	guidLen             = 16          // hex digits of our random part
	maxSequence   int64 = math.MaxInt32
)

// entryName is what the name of an entry's node shows.
type entryName struct {
	text   string
	marker string
	seq    int64
	guid   string // our random part; "" if the entry is foreign
	sealed bool   // only its owner can write it: see seal
	valued bool   // its data is for other programs
	mode   driver.Mode
	weight int64
}

// parseName reads the name of a child. It returns false if the child is no entry. Curator
// and go-zookeeper take what follows the last marker, so that is what counts. The number
// may be negative after an overflow. The servers write it with ten characters at least,
// of which the sign is one.
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
		if ok = ok && wide == width; !ok {
			if before, ok = strings.CutSuffix(rest, m+"-"); ok {
				n.seq = -n.seq
			}
		}
		if ok {
			n.marker, n.mode = m, modeOf(m)
			n.readOwn(before)
			return n, true
		}
	}
	return entryName{}, false
}

func modeOf(marker string) driver.Mode {
	if marker == markRead || marker == markKazooRead {
		return driver.Shared
	}
	return driver.Exclusive
}

// readOwn reads what stands before the marker, if it has the form of our entries: the
// random part, "x" if it is sealed, "v" if it has a value, and the weight of a
// semaphore's request.
func (n *entryName) readOwn(before string) {
	before = strings.TrimSuffix(before, "-")
	if len(before) < guidLen || strings.ContainsFunc(before[:guidLen], func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'f')
	}) {
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

// prefix is the name of a new entry up to its sequence number.
//
// A semaphore's request is never sealed, because it is written while it is not the first
// of its queue. Nor is an entry in the queue of a LeaderLatch: Curator's candidates take
// no notice of a change of the entry before theirs, and do not watch it again.
func (l layout) prefix(guid string, sealed bool, req driver.JoinRequest) string {
	n := entryName{guid: guid, mode: req.Mode, weight: req.Weight, valued: req.Valued, marker: l.marker(req.Mode, req.Family)}
	n.sealed = sealed && n.mode != driver.Weighted && n.marker != markLatch
	return n.prefix()
}

// marker is what stands before the number of a new entry.
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

// downgrades reports whether the entry can get the mark Shared: it is a writer, or, in
// Kazoo's layout, may be one. Foreign entries never get it.
func (n entryName) downgrades() bool {
	return n.guid != "" && n.mode == driver.Exclusive && !n.valued && (n.marker == markWrite || n.marker == markKazoo)
}

// place is the entry's place. ZooKeeper counts from 0, and a place is above 0.
func (n entryName) place() int64 { return n.seq + 1 }

// entry returns what the name shows of an entry.
func (n entryName) entry(queue, folder string) driver.Entry {
	return driver.Entry{
		Ref:     driver.Ref{Queue: queue, Key: folder + "/" + n.text, Place: n.place()},
		Mode:    n.mode,
		Weight:  n.weight,
		Valued:  n.valued,
		Foreign: n.guid == "",
	}
}

// parseNames picks the entries out of a folder's children and puts them in order. Two
// with the same number, which can only be after an overflow, or when Curator makes a
// reader of a writer, stand in the order of their names: all must see the same order.
func parseNames(children []string) []entryName {
	names := make([]entryName, 0, len(children))
	for _, c := range children {
		if n, ok := parseName(c); ok {
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

// nameOf returns the name in the path of a Ref. It returns false if that is no entry, or
// one with another place.
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

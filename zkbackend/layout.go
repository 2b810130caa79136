package zkbackend

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fairlock/fairlock/session/driver"
)

// The markers that stand before the sequence number in the names of entries:
// ours, Curator's, Kazoo's and go-zookeeper's. A child with none of them is no
// entry.
const (
	markLock            = "lock-"     // Curator and go-zookeeper: mutex
	markLatch           = "latch-"    // Curator: candidate
	markRead            = "__READ__"  // Curator: reader
	markWrite           = "__WRIT__"  // Curator: writer
	markKazoo           = "__lock__"  // Kazoo: mutex, writer
	markKazooRead       = "__rlock__" // Kazoo: reader
	guidLen             = 16          // hex digits of our random part
	maxSeq        int64 = math.MaxInt32
)

// layout is where lines and entries are.
type layout struct {
	root string // begins with a slash, does not end with one; "" is the whole tree
	kind Layout
}

func newLayout(root string, kind Layout) layout {
	return layout{root: strings.TrimSuffix(root, "/"), kind: kind}
}

// check says why a name cannot be a path below the root.
func (l layout) check(name string) error {
	for i, seg := range strings.Split(name, "/") {
		if _, ok := parseNode(escape(seg)); ok {
			return fmt.Errorf("its part %q has the form of an entry of another lock", seg)
		}
		if i == 0 && seg == "zookeeper" && l.root == "" {
			return errors.New("/zookeeper belongs to the servers")
		}
	}
	return nil
}

// dir is the folder of a line.
func (l layout) dir(name string) string {
	if _, asks := driver.AskedLine(name); asks {
		return l.beside(name) + "/line"
	}
	var b strings.Builder
	b.WriteString(l.root)
	for seg := range strings.SplitSeq(name, "/") {
		b.WriteByte('/')
		b.WriteString(escape(seg))
	}
	return b.String()
}

// name is the inverse of dir; false if the folder cannot be one of ours.
func (l layout) name(dir string) (string, bool) {
	rest, ok := strings.CutPrefix(dir, l.root+"/")
	if !ok {
		return "", false
	}
	segs := strings.Split(rest, "/")
	for i, s := range segs {
		if segs[i], ok = unescape(s); !ok {
			return "", false
		}
	}
	return strings.Join(segs, "/"), true
}

// empty stands for a part of a name with nothing in it.
const empty = "%"

// escape makes a part of a name one that ZooKeeper takes as a part of a path:
// not empty, not a dot or two, and without the characters that Java's
// PathUtils.validatePath refuses (control characters, surrogates, private use,
// specials). What is escaped is written as %XX, byte by byte.
func escape(seg string) string {
	switch seg {
	case "":
		return empty
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	if strings.IndexFunc(seg, refusedRune) < 0 {
		return seg
	}
	var b strings.Builder
	for len(seg) > 0 {
		// Of what is no UTF-8 this is one byte, whose rune is refused.
		r, n := utf8.DecodeRuneInString(seg)
		if refusedRune(r) {
			for _, c := range []byte(seg[:n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(seg[:n])
		}
		seg = seg[n:]
	}
	return b.String()
}

// refusedRune says that a character cannot stand in a path, or means something
// to us. Java looks at UTF-16, in which all beyond U+FFFF are surrogates.
func refusedRune(r rune) bool {
	return r == '%' || r == '/' || r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// unescape is the inverse of escape; false if it cannot have come from there.
func unescape(seg string) (string, bool) {
	if seg == empty {
		return "", true
	}
	if !strings.Contains(seg, "%") {
		return seg, seg != "" && escape(seg) == seg
	}
	b := make([]byte, 0, len(seg))
	for i := 0; i < len(seg); i++ {
		if seg[i] != '%' {
			b = append(b, seg[i])
			continue
		}
		if i+2 >= len(seg) {
			return "", false
		}
		c, err := strconv.ParseUint(seg[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(c))
		i += 2
	}
	s := string(b)
	return s, utf8.ValidString(s) && escape(s) == seg
}

// checkPath says what ZooKeeper would refuse in a path.
func checkPath(path string) error {
	for seg := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case seg == "":
			return errors.New("it has an empty part")
		case seg == "." || seg == "..":
			return errors.New("it is not absolute")
		case strings.ContainsFunc(seg, func(r rune) bool { return r != '%' && refusedRune(r) }) || !utf8.ValidString(seg):
			return errors.New("it has a character that ZooKeeper refuses")
		}
	}
	return nil
}

// node is what the name of an entry says.
type node struct {
	name   string
	marker string
	seq    int64
	guid   string // our random part; "" if the entry is not ours
	sealed bool   // a change is word of a hold that was given back, see seal
	valued bool   // its data is a value
	mode   driver.Mode
	weight int64
}

// parseNode reads the name of a child; false if it is no entry. Curator and
// go-zookeeper take what follows the last marker, so that is what counts; the
// number may be negative after an overflow. The servers write it with ten
// characters at least, of which the sign is one.
func parseNode(name string) (node, bool) {
	const width = 10
	digits := len(name)
	for digits > 0 && name[digits-1] >= '0' && name[digits-1] <= '9' {
		digits--
	}
	wide := len(name) - digits
	if wide != width && wide != width-1 {
		return node{}, false
	}
	n := node{name: name}
	n.seq, _ = strconv.ParseInt(name[digits:], 10, 64) // ten digits always fit
	rest := name[:digits]
	for _, m := range []string{markLock, markLatch, markWrite, markRead, markKazoo, markKazooRead} {
		if before, ok := strings.CutSuffix(rest, m); ok && wide == width {
			n.marker, n.mode = m, modeOf(m)
			n.ours(before)
			return n, true
		}
		if before, ok := strings.CutSuffix(rest, m+"-"); ok {
			n.marker, n.mode, n.seq = m, modeOf(m), -n.seq
			n.ours(before)
			return n, true
		}
	}
	return node{}, false
}

func modeOf(marker string) driver.Mode {
	if marker == markRead || marker == markKazooRead {
		return driver.Shared
	}
	return driver.Exclusive
}

// ours reads what stands before the marker, if it has the form of our entries:
// the random part, whether it is sealed or has a value, and the weight of a
// semaphore's request.
func (n *node) ours(before string) {
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
	case sealed && valued:
		return
	case weighted:
		w, err := strconv.ParseInt(weight, 10, 64)
		if err != nil || w < 0 || strconv.FormatInt(w, 10) != weight {
			return
		}
		n.mode, n.weight = driver.Weighted, w
	case rest != "":
		return
	}
	n.guid, n.sealed, n.valued = before[:guidLen], sealed, valued
}

// prefix is the name of a new entry, up to its sequence number. Where the owner
// changes an entry while he holds, in a line with a limit or with a value, that is
// no word, and so it has no seal.
func (l layout) prefix(guid string, sealed bool, req driver.JoinRequest) string {
	n := node{guid: guid, mode: req.Mode, weight: req.Weight, valued: req.Value != nil, marker: l.marker(req.Mode, req.Kin)}
	n.sealed = sealed && !n.valued && n.mode != driver.Weighted
	return n.prefix()
}

// marker is what stands before the number of a new entry.
func (l layout) marker(mode driver.Mode, kin driver.Kin) string {
	switch {
	case l.kind == LayoutKazoo && mode == driver.Shared:
		return markKazooRead
	case l.kind == LayoutKazoo:
		return markKazoo
	case mode == driver.Shared:
		return markRead
	case mode == driver.Exclusive && kin == driver.KinReadWrite:
		return markWrite
	case mode == driver.Exclusive && kin == driver.KinLatch:
		return markLatch
	}
	return markLock
}

// reader is the name of the entry that takes the place of a writer's.
func (l layout) reader(n node) string {
	n.mode, n.marker = driver.Shared, l.marker(driver.Shared, driver.KinReadWrite)
	return fmt.Sprintf("%s%010d", n.prefix(), n.seq)
}

// prefix writes a name up to its number.
func (n node) prefix() string {
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

// entry makes the driver's entry of a child.
func (n node) entry(line, dir string) driver.Entry {
	return driver.Entry{
		Ref:     driver.Ref{Line: line, Key: dir + "/" + n.name, Place: n.seq},
		Mode:    n.mode,
		Weight:  n.weight,
		Foreign: n.guid == "",
		Movable: n.marker == markWrite || n.marker == markKazoo, // a writer's, or perhaps one
	}
}

// parseNodes picks the entries out of a folder's children and puts them in
// order. Two with the same number, which can only be after an overflow, or when
// a reader took the place of its writer, stand in the order of their names: all
// must see the same order.
func parseNodes(children []string) []node {
	nodes := make([]node, 0, len(children))
	for _, c := range children {
		if n, ok := parseNode(c); ok {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b node) int {
		if a.seq != b.seq {
			return int(min(max(a.seq-b.seq, -1), 1))
		}
		return strings.Compare(a.name, b.name)
	})
	return nodes
}

// random makes up a number of n bytes, in hex.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// split returns the folder and the name of a path.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// refNode is what the path of a Ref says; false if it is no entry or its number
// is not the place.
func refNode(ref driver.Ref) (node, bool) {
	_, name := split(ref.Key)
	n, ok := parseNode(name)
	return n, ok && n.seq == ref.Place
}

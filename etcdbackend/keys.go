package etcdbackend

import (
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/session/driver"
)

// layout turns names into keys and keys into entries. All of it is pure.
type layout struct {
	root string // escaped: the keys of a root never lie below another root
	kind Layout
}

// prefix is what the keys of a line's entries begin with.
func (l layout) prefix(name string) string {
	if _, asks := driver.AskedLine(name); asks {
		return l.beside(name) + "line/"
	}
	if l.kind == LayoutConcurrency {
		return name + "/"
	}
	return l.root + "/" + escape(name) + "/"
}

// fences is what the keys of all fences begin with. In the native layout no
// name can have it: an escaped name has "%" only before two upper-case digits.
func (l layout) fences() string { return l.root + "/%fence/" }

// fence is the key that keeps one attempt of a session from being done late.
func (l layout) fence(id clientv3.LeaseID, attempt int64) string {
	return l.fences() + leaseName(id) + "." + strconv.FormatInt(attempt, 10)
}

// besides is what the keys begin with that hang on a line and are no entries.
// They lie beside it, because whoever stands in a line takes every key in it for
// an entry. As with the fences, no escaped name reads like that.
func (l layout) besides() string { return l.root + "/%beside/" }

// beside is what such keys of one line begin with. The line of asks is all there.
func (l layout) beside(name string) string {
	if of, asks := driver.AskedLine(name); asks {
		return l.beside(of) + "asks/"
	}
	return l.besides() + escape(name) + "/"
}

// limit is the key of a line's limit.
func (l layout) limit(name string) string { return l.beside(name) + "limit" }

// ledger is the key of the account that a line keeps of holds.
func (l layout) ledger(name string) string { return l.beside(name) + "ledger" }

// done is the key of a line's record of finished work.
func (l layout) done(name string) string { return l.beside(name) + "done" }

// numbers is what the keys of the numbers that entries have begin with.
func (l layout) numbers(name string) string { return l.beside(name) + "slot/" }

// grants is what the keys begin with that record since when entries hold; behind
// it stands what stands behind the line's prefix.
func (l layout) grants(name string) string { return l.beside(name) + "held/" }

// granted is that key of one entry.
func (l layout) granted(ref driver.Ref) string {
	return l.grants(ref.Line) + strings.TrimPrefix(ref.Key, l.prefix(ref.Line))
}

// metas is what the keys begin with where entries with values keep what they
// say of themselves; behind it stands what stands behind the line's prefix.
func (l layout) metas(name string) string { return l.beside(name) + "meta/" }

// meta is that key of one entry.
func (l layout) meta(ref driver.Ref) string {
	return l.metas(ref.Line) + strings.TrimPrefix(ref.Key, l.prefix(ref.Line))
}

// parse reads the key of an entry.
func (l layout) parse(ref driver.Ref) (entryKey, bool) {
	part, ok := strings.CutPrefix(ref.Key, l.prefix(ref.Line))
	if !ok {
		return entryKey{}, false
	}
	return parseEntry(part)
}

// slot is the slot of an own entry.
func (l layout) slot(ref driver.Ref) (int, bool) {
	k, ok := l.parse(ref)
	return k.slot, ok
}

// isOwn says that an entry is one of a session's.
func (l layout) isOwn(ref driver.Ref, id clientv3.LeaseID) bool {
	k, ok := l.parse(ref)
	return ok && k.lease == id
}

// valued says that an entry of ours was made with a value.
func (l layout) valued(ref driver.Ref) bool {
	k, _ := l.parse(ref)
	return k.valued
}

// isValued says the same of a key of a line.
func (l layout) isValued(line string, kv *mvccpb.KeyValue) bool {
	return l.valued(driver.Ref{Line: line, Key: string(kv.Key)})
}

// own is what the keys of one session's entries in one line begin with, and the
// end of the range that holds them: "/" is the byte after ".".
func (l layout) own(name string, id clientv3.LeaseID) (from, to string) {
	p := l.prefix(name) + strconv.FormatUint(uint64(id), 16)
	return p + ".", p + "/"
}

// check says why the layout cannot hold a lock of this name.
func (l layout) check(name string) error {
	if l.kind != LayoutConcurrency {
		return nil
	}
	p := l.prefix(name)
	switch {
	case strings.HasSuffix(name, "/"):
		return fmt.Errorf("the %s layout cannot distinguish it from the name without the slash at the end", l.kind)
	}
	for _, kept := range []string{l.fences(), l.besides()} {
		if strings.HasPrefix(kept, p) || strings.HasPrefix(p, kept) {
			return fmt.Errorf("in the %s layout its queue would contain the keys under %q, which are no entries", l.kind, kept)
		}
	}
	i := strings.LastIndexByte(name, '/')
	if _, ok := parseEntry(name[i+1:]); ok && i >= 0 {
		return fmt.Errorf("in the %s layout its last part has the form of an entry of another queue", l.kind)
	}
	return nil
}

// within reports whether the queue of name contains the entries of another name's
// queue. Only in LayoutConcurrency can it.
func (l layout) within(other, name string) bool {
	return other != name && strings.HasPrefix(l.prefix(other), l.prefix(name))
}

// entryKey is what the part of an own key behind the line's prefix says.
type entryKey struct {
	lease  clientv3.LeaseID
	slot   int
	mode   driver.Mode
	weight int64
	valued bool // made with a value, which is not ours to read
}

// String returns the form that parseEntry reads.
func (k entryKey) String() string {
	s := strconv.FormatUint(uint64(k.lease), 16) + "." + strconv.Itoa(k.slot)
	switch k.mode {
	case driver.Shared:
		s += ".r"
	case driver.Weighted:
		s += ".w" + strconv.FormatInt(k.weight, 10)
	case driver.Exclusive:
	}
	if k.valued {
		s += ".v"
	}
	return s
}

// parseEntry reads the part of a key behind the line's prefix. It accepts only
// what String writes, to the letter: whatever else stands there was made by
// somebody else, and counts as foreign.
func parseEntry(s string) (entryKey, bool) {
	var k entryKey
	lease, rest, ok := strings.Cut(s, ".")
	if !ok || len(lease) > 16 {
		return entryKey{}, false
	}
	id, err := strconv.ParseUint(lease, 16, 64)
	if err != nil || id == 0 {
		return entryKey{}, false
	}
	rest, k.valued = strings.CutSuffix(rest, ".v")
	slot, mode, marked := strings.Cut(rest, ".")
	n, err := strconv.ParseInt(slot, 10, 32)
	if err != nil || n < 0 {
		return entryKey{}, false
	}
	k.lease, k.slot = clientv3.LeaseID(id), int(n) //nolint:gosec // lease ids are opaque bits
	switch {
	case !marked:
	case mode == "r":
		k.mode = driver.Shared
	case strings.HasPrefix(mode, "w"):
		k.mode = driver.Weighted
		if k.weight, err = strconv.ParseInt(mode[1:], 10, 64); err != nil || k.weight < 0 {
			return entryKey{}, false
		}
	default:
		return entryKey{}, false
	}
	// Leading zeros, signs and capitals parse too, but are not ours.
	if k.String() != s {
		return entryKey{}, false
	}
	return k, true
}

const upperHex = "0123456789ABCDEF"

// mustEscape names the bytes that would be mistaken in a key or in a terminal.
func mustEscape(c byte) bool { return c == '%' || c == '/' || c < 0x20 || c == 0x7f }

// escape makes one path segment of a name. It works byte by byte, so the escape
// of a prefix is a prefix of the escape.
func escape(name string) string {
	n := 0
	for i := range len(name) {
		if mustEscape(name[i]) {
			n++
		}
	}
	if n == 0 {
		return name
	}
	var b strings.Builder
	b.Grow(len(name) + 2*n)
	for i := range len(name) {
		if c := name[i]; mustEscape(c) {
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape is the inverse of escape. It says false of what escape never writes.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, "%") {
		return s, escape(s) == s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	name := b.String()
	return name, escape(name) == s
}

// lineOf returns the name of the line that a key stands in, and false for keys
// that are in none. from is where to go on if the whole line is to be skipped.
func (l layout) lineOf(key string) (name, from string, ok bool) {
	if l.kind == LayoutConcurrency {
		i := strings.LastIndexByte(key, '/')
		if i <= 0 || strings.HasPrefix(key, l.fences()) || strings.HasPrefix(key, l.besides()) {
			return "", key + "\x00", false
		}
		// "a/1.0" and "a/b/1.0" lie mixed, so nothing can be skipped.
		return key[:i], key + "\x00", true
	}
	seg, _, inLine := strings.Cut(strings.TrimPrefix(key, l.root+"/"), "/")
	if !inLine {
		return "", key + "\x00", false
	}
	from = l.root + "/" + seg + "0" // "0" is the byte after "/"
	name, ok = unescape(seg)
	return name, from, ok && name != ""
}

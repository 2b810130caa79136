package etcdbackend

import (
	"fmt"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/session/driver"
)

// layout turns names into keys and keys into entries. All of it is pure.
type layout struct {
	root string
	kind Layout
}

// prefix is what the keys of a line's entries begin with.
func (l layout) prefix(name string) string {
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
		return fmt.Errorf("the %s layout cannot tell it from the name without the slash at the end", l.kind)
	case strings.HasPrefix(l.fences(), p), strings.HasPrefix(p, l.fences()):
		return fmt.Errorf("in the %s layout its line would contain the fences under %q", l.kind, l.fences())
	}
	i := strings.LastIndexByte(name, '/')
	if _, ok := parseEntry(name[i+1:]); ok && i >= 0 {
		return fmt.Errorf("in the %s layout its last part reads like an entry of another line", l.kind)
	}
	return nil
}

// entryKey is what the part of an own key behind the line's prefix says.
type entryKey struct {
	lease  clientv3.LeaseID
	slot   int
	mode   driver.Mode
	weight int64
}

// String returns the form that parseEntry reads.
func (k entryKey) String() string {
	s := strconv.FormatUint(uint64(k.lease), 16) + "." + strconv.Itoa(k.slot)
	switch k.mode {
	case driver.Shared:
		return s + ".r"
	case driver.Weighted:
		return s + ".w" + strconv.FormatInt(k.weight, 10)
	case driver.Exclusive:
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
	return k, k.String() == s
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
		if i <= 0 || strings.HasPrefix(key, l.fences()) {
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

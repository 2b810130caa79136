package etcdbackend

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/etcdbackend/internal/lease"
	"github.com/fairlock/fairlock/session/driver"
)

// layout turns names into keys and back. All of it is pure.
type layout struct {
	root string // escaped: the keys of a root never lie below another root
	kind Layout
}

// What follows the root in keys that belong to no queue of a user's name. No escaped
// name begins like that: it has "%" only before two upper-case hexadecimal digits.
const (
	fenceFolder   = "/%fence/"
	witnessFolder = "/%witness/"
	sideFolder    = "/%v2/" // records and details, in the second version of their form
)

// What follows a queue's side in keys that are no records. No record's name begins with
// "%".
const (
	asksFolder   = "%asks/"   // the side of the queue of yield requests
	entryFolder  = "%entry/"  // in there: the entries
	detailFolder = "%detail/" // the details of entries, by what follows the queue's prefix in their keys
)

// prefix is what the keys of a queue's entries begin with.
func (l layout) prefix(queue string) string {
	if _, asks := driver.AskedQueue(queue); asks {
		return l.side(queue) + entryFolder
	}
	if l.kind == LayoutConcurrency {
		return queue + "/"
	}
	return l.root + "/" + escape(queue) + "/"
}

// side is what the keys begin with that belong to a queue and are no entries. They are
// not below the prefix: a program that shares the queue takes every key there for an
// entry.
func (l layout) side(queue string) string {
	if name, asks := driver.AskedQueue(queue); asks {
		return l.side(name) + asksFolder
	}
	return l.root + sideFolder + escape(queue) + "/"
}

// serial is a key of a session in one of these folders, which is no other session's.
func (l layout) serial(folder string, id, n int64) []byte {
	return []byte(l.root + folder + lease.Name(id) + "." + strconv.FormatInt(n, 10))
}

// isKept reports whether keys with a prefix may be in one of these folders.
func (l layout) isKept(prefix string) bool {
	for _, folder := range []string{fenceFolder, witnessFolder, sideFolder} {
		if kept := l.root + folder; strings.HasPrefix(kept, prefix) || strings.HasPrefix(prefix, kept) {
			return true
		}
	}
	return false
}

// check returns why the layout cannot hold a queue of this name, or nil.
func (l layout) check(name string) error {
	if l.kind != LayoutConcurrency {
		return nil
	}
	if strings.HasSuffix(name, "/") {
		return fmt.Errorf("the %s layout cannot distinguish it from the name without the slash at the end", l.kind)
	}
	if l.isKept(l.prefix(name)) {
		return fmt.Errorf("in the %s layout its queue would contain keys under %q that are no entries", l.kind, l.root+"/")
	}
	i := strings.LastIndexByte(name, '/')
	if _, ok := parseEntryKey(name[i+1:]); ok && i >= 0 {
		return fmt.Errorf("in the %s layout its last part has the form of an entry of another queue", l.kind)
	}
	return nil
}

// within reports whether the queue of name contains the entries of another name's queue.
func (l layout) within(other, name string) bool {
	return other != name && strings.HasPrefix(l.prefix(other), l.prefix(name))
}

// queueOf returns the queue that a key is an entry of, and false for keys that are in
// none. from is where to go on if the rest of the queue is to be skipped.
func (l layout) queueOf(key string) (name, from string, ok bool) {
	if l.kind == LayoutConcurrency {
		i := strings.LastIndexByte(key, '/')
		// "a/1.0" and "a/b/1.0" lie mixed, so nothing can be skipped.
		return key[:max(i, 0)], key + "\x00", i > 0 && !l.isKept(key)
	}
	segment, _, inside := strings.Cut(strings.TrimPrefix(key, l.root+"/"), "/")
	if !inside {
		return "", key + "\x00", false
	}
	name, ok = unescape(segment)
	return name, l.root + "/" + segment + "0", ok && name != "" // "0" is the byte after "/"
}

// prefixEnd ends the range of the keys with a prefix. All our prefixes end with a slash
// or a dot, so the last byte can always be raised.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}

const upperHex = "0123456789ABCDEF"

// mustEscape reports whether a byte would be mistaken in a key or in a terminal.
func mustEscape(c byte) bool { return c == '%' || c == '/' || c < 0x20 || c == 0x7f }

// escape makes one path segment of a name. It works byte by byte, so the escape of a
// prefix is a prefix of the escape.
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
	b := make([]byte, 0, len(name)+2*n)
	for i := range len(name) {
		if c := name[i]; mustEscape(c) {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// unescape is the inverse of escape. It returns false for what escape never writes.
func unescape(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if i+2 >= len(s) {
				return "", false
			}
			n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			c, i = byte(n), i+2
		}
		b = append(b, c)
	}
	name := string(b)
	return name, escape(name) == s
}

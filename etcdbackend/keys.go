package etcdbackend

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/etcdbackend/internal/lease"
	"github.com/fairlock/fairlock/session/driver"
)

// layout turns names into keys and back. It never changes, and sends nothing.
//
// What lies where, of the lock "a/b" with the root "fairlock":
//
//	                  LayoutNative                   LayoutConcurrency
//	entries           fairlock/a%2Fb/                a/b/
//	records, details  fairlock/%v2/a%2Fb/            the same
//	yield requests    fairlock/%v2/a%2Fb/%asks/      the same
//	fences            fairlock/%fence/               the same
//	witnesses         fairlock/%witness/             the same
//
// Below the prefix of a queue are entries and nothing else, because other programs, and the
// range reads of this one, take each key there for an entry.
type layout struct {
	root string // escaped: the keys of a root never lie below another root
	kind Layout // decides about the keys of entries only
}

// What follows the root in keys that belong to no queue of a user's name. No escaped
// name begins like that: it has "%" only before two upper-case hexadecimal digits.
const (
	fenceFolder   = "/%fence/"
	witnessFolder = "/%witness/"
	sideFolder    = "/%v2/" // records and details, in the second version of their form
)

// The folders below side(queue) that hold no records. No record's name begins with "%".
const (
	asksFolder   = "%asks/"   // the side of the queue of yield requests
	entryFolder  = "%entry/"  // in there: the entries
	detailFolder = "%detail/" // the details of entries, by what follows the queue's prefix in their keys
	firstFolder  = "%first/"  // the first keys of entries, by the same, see first.go
)

// prefix is what the keys of a queue's entries begin with.
func (l layout) prefix(queue string) string {
	_, asks := driver.AskedQueue(queue)
	if asks {
		return l.side(queue) + entryFolder
	}
	if l.kind == LayoutConcurrency {
		return queue + "/"
	}
	return l.root + "/" + escape(queue) + "/"
}

// side is what the keys begin with that belong to a queue and are no entries. They are
// not below the prefix, because another program that uses the queue takes every key there
// for an entry.
func (l layout) side(queue string) string {
	name, asks := driver.AskedQueue(queue)
	if asks {
		return l.side(name) + asksFolder
	}
	return l.root + sideFolder + escape(queue) + "/"
}

// serial returns the n-th key of a session in fenceFolder or witnessFolder. The lease is in
// the key, so two sessions never write one.
func (l layout) serial(folder string, id, n int64) []byte {
	return []byte(l.root + folder + lease.Name(id) + "." + strconv.FormatInt(n, 10))
}

// isInternal reports whether keys with a prefix may be in one of the folders of this
// library, so that they are no entries: the folder is below the prefix, or the prefix is in
// the folder.
func (l layout) isInternal(prefix string) bool {
	for _, name := range []string{fenceFolder, witnessFolder, sideFolder} {
		folder := l.root + name
		if strings.HasPrefix(folder, prefix) || strings.HasPrefix(prefix, folder) {
			return true
		}
	}
	return false
}

// check returns why the layout cannot hold a queue of this name, or nil. In LayoutNative it
// holds each, because names are escaped. In LayoutConcurrency names are keys as they are, and
// a name is refused if a key below it would be taken for something else:
//
//	"fairlock"  the range of its entries would contain the folders of this library
//	"a/6f.0"    the queue "a" would take its keys for entries of its own form
func (l layout) check(name string) error {
	if l.kind != LayoutConcurrency {
		return nil
	}
	if l.isInternal(l.prefix(name)) {
		return fmt.Errorf("in the %s layout its queue would contain keys under %q that are no entries", l.kind, l.root+"/")
	}
	i := strings.LastIndexByte(name, '/')
	_, ours := parseEntryKey(name[i+1:])
	if ours && i >= 0 {
		return fmt.Errorf("in the %s layout its last part has the form of an entry of another queue", l.kind)
	}
	return nil
}

// within reports whether the queue of name contains the entries of another name's queue: in
// LayoutConcurrency that of "a" contains those of "a/b". It is never so in LayoutNative.
func (l layout) within(other, name string) bool {
	return other != name && strings.HasPrefix(l.prefix(other), l.prefix(name))
}

// queueOf returns the name of the queue that a key is an entry of, and false if there is
// none. from is the key at which a read goes on that skips the rest of the queue.
func (l layout) queueOf(key string) (name, from string, ok bool) {
	if l.kind == LayoutConcurrency {
		i := strings.LastIndexByte(key, '/')
		// Keys of the queue "a/b" are between those of "a", so none can be skipped.
		return key[:max(i, 0)], key + "\x00", i > 0 && !l.isInternal(key)
	}
	segment, _, inside := strings.Cut(strings.TrimPrefix(key, l.root+"/"), "/")
	if !inside {
		return "", key + "\x00", false
	}
	name, ok = unescape(segment)
	return name, l.root + "/" + segment + "0", ok && name != "" // "0" is the byte after "/"
}

// prefixEnd returns the first key behind those with a prefix, with which their range ends.
// All our prefixes end with a slash or a dot, so the last byte can always be raised.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}

// mustEscape reports whether a byte has a meaning in a key or in a terminal.
func mustEscape(c byte) bool { return c == '%' || c == '/' || c < 0x20 || c == 0x7f }

// escape returns a name as one segment of a key. It works byte by byte, so names with a
// common prefix have keys with a common prefix: the names with a prefix are one range.
func escape(name string) string {
	b := make([]byte, 0, len(name))
	for i := range len(name) {
		c := name[i]
		if mustEscape(c) {
			b = fmt.Appendf(b, "%%%02X", c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// unescape is the inverse of escape. It returns false for what escape never writes: such a
// key is another program's, and its name would have two spellings.
func unescape(s string) (string, bool) {
	name, err := url.PathUnescape(s)
	return name, err == nil && escape(name) == s
}

package etcdbackend

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/etcdbackend/internal/lease"
	"github.com/fairlock/fairlock/session/driver"
)

// layout turns names into keys and back.
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

// The folders below side(queue) that hold no records. No record's name begins with "%".
const (
	asksFolder   = "%asks/"   // the side of the queue of yield requests
	entryFolder  = "%entry/"  // in there: the entries
	detailFolder = "%detail/" // the details of entries, by what follows the queue's prefix in their keys
	firstFolder  = "%first/"  // by the same: the place of an entry that was first when it left
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
// not below the prefix, because another program that uses the queue takes every key there
// for an entry.
func (l layout) side(queue string) string {
	if name, asks := driver.AskedQueue(queue); asks {
		return l.side(name) + asksFolder
	}
	return l.root + sideFolder + escape(queue) + "/"
}

// serial returns the n-th key of a session in fenceFolder or witnessFolder.
func (l layout) serial(folder string, id, n int64) []byte {
	return []byte(l.root + folder + lease.Name(id) + "." + strconv.FormatInt(n, 10))
}

// isInternal reports whether keys with a prefix may be in one of the folders of this
// library, so that they are no entries.
func (l layout) isInternal(prefix string) bool {
	for _, folder := range []string{fenceFolder, witnessFolder, sideFolder} {
		if folder = l.root + folder; strings.HasPrefix(folder, prefix) || strings.HasPrefix(prefix, folder) {
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
	if l.isInternal(l.prefix(name)) {
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

// prefixEnd ends the range of the keys with a prefix. All our prefixes end with a slash
// or a dot, so the last byte can always be raised.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}

// mustEscape reports whether a byte has a meaning in a key or in a terminal.
func mustEscape(c byte) bool { return c == '%' || c == '/' || c < 0x20 || c == 0x7f }

// escape returns a name as one segment of a key. It works byte by byte, so names with a
// common prefix have keys with a common prefix.
func escape(name string) string {
	b := make([]byte, 0, len(name))
	for i := range len(name) {
		if c := name[i]; mustEscape(c) {
			b = fmt.Appendf(b, "%%%02X", c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// unescape is the inverse of escape. It returns false for what escape never writes.
func unescape(s string) (string, bool) {
	name, err := url.PathUnescape(s)
	return name, err == nil && escape(name) == s
}

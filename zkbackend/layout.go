package zkbackend

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/fairlock/fairlock/session/driver"
)

// layout turns names into paths and back. Its methods are pure functions.
//
// Three properties hold for all names that users can give (FuzzNamesOfQueues):
//
//   - Two queues share no folder, and no side folder.
//   - A folder has one name at most, and the folder of that name is this folder.
//   - No folder of a queue is in a side folder.
//
// A folder of one queue can be in that of another: "a/b" is in "a".
type layout struct {
	// root begins with a slash and does not end with one; "" is the whole tree.
	root string

	// kind decides only how entries are named: folders are the same in all layouts.
	kind Layout
}

func newLayout(root string, kind Layout) layout {
	return layout{root: strings.TrimSuffix(root, "/"), kind: kind}
}

// sideFolders has what belongs to queues and is no entry, in the second version of the layout.
// It is not in the queues' folders, because Curator sorts all children there, and go-zookeeper's
// Lock fails on one that is no entry. No escaped name begins like that, because escape writes
// two capital hexadecimal digits behind a "%".
const sideFolders = "/%v2/"

// check returns why a name cannot be a path below the root, or nil. A part in the form of an entry is
// refused: its folder would be an entry of the lock above it, which has no session and never ends.
func (l layout) check(name string) error {
	for i, part := range strings.Split(name, "/") {
		_, ok := parseName(escape(part))
		if ok {
			return fmt.Errorf("its part %q has the form of an entry of another lock", part)
		}
		if i == 0 && part == "zookeeper" && l.root == "" {
			return errors.New("/zookeeper belongs to the servers")
		}
	}
	return nil
}

// folder is where the entries of a queue are.
func (l layout) folder(queue string) string {
	_, asks := driver.AskedQueue(queue)
	if asks {
		return l.side(queue) + "/queue"
	}
	return l.root + "/" + escapeParts(queue, "/")
}

// name is the inverse of folder. It returns false for a folder of no name that users can give: one
// outside the root, a side folder, and one that escape would write in another way.
func (l layout) name(folder string) (string, bool) {
	rest, ok := strings.CutPrefix(folder, l.root+"/")
	if !ok {
		return "", false
	}
	parts := strings.Split(rest, "/")
	for i, p := range parts {
		parts[i], ok = unescape(p)
		if !ok {
			return "", false
		}
	}
	return strings.Join(parts, "/"), true
}

// side is the folder of what belongs to a queue and is no entry. The name is one part of its
// path, so that the side folder of "a/b" is not in that of "a".
func (l layout) side(queue string) string {
	name, asks := driver.AskedQueue(queue)
	if asks {
		return l.side(name) + "/asks"
	}
	return l.root + sideFolders + escapeParts(queue, "%2F")
}

func (l layout) details(queue string) string { return l.side(queue) + "/details" }
func (l layout) holders(queue string) string { return l.side(queue) + "/holders" }
func (l layout) records(queue string) string { return l.side(queue) + "/records" }

// record is the node of a record, and version the node that exists as long as the record has that
// version: see record.go. Both are in one folder. No escaped name of a record has an "@", so the two
// kinds never meet.
func (l layout) record(queue, record string) string {
	return l.records(queue) + "/" + escapeRecord(record)
}

func (l layout) version(queue, record string, version int64) string {
	return l.record(queue, record) + "@" + versionText(version)
}

// recordNamed returns the record that a node of the records' folder is, and false for the
// node of a version.
func recordNamed(node string) (string, bool) {
	if strings.Contains(node, "@") {
		return "", false
	}
	return unescapeAny(node)
}

// empty is the escaped form of an empty part of a name. No other part is escaped so: each "%" that
// escape writes has two digits behind it.
const empty = "%"

// escape turns a part of a name into a part of a path that ZooKeeper accepts: not empty, not "."
// or "..", and without the characters that Java's PathUtils.validatePath refuses (control
// characters, surrogates, private use, specials). It writes each byte of those as %XX.
func escape(part string) string {
	switch part {
	case "":
		return empty
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	return escapeRunes(part, refusedRune)
}

// escapeParts escapes the parts of a name and joins them.
func escapeParts(name, separator string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = escape(p)
	}
	return strings.Join(parts, separator)
}

// escapeRecord turns the name of a record into one part of a path. A "." is escaped wherever it is, so
// no name becomes "." or "..".
func escapeRecord(name string) string {
	return escapeRunes(name, func(r rune) bool { return r == '@' || r == '.' || refusedRune(r) })
}

func escapeRunes(s string, must func(rune) bool) string {
	if strings.IndexFunc(s, must) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		// Where s is no UTF-8, this is one byte and a rune that is refused.
		r, n := utf8.DecodeRuneInString(s)
		if must(r) {
			for _, c := range []byte(s[:n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// refusedRune reports whether ZooKeeper refuses a character in a path, or the layout uses it.
// Java checks UTF-16, in which all characters beyond U+FFFF are surrogates.
func refusedRune(r rune) bool {
	return r == '%' || r == '/' || r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// unescape is the inverse of escape. It returns false for what escape never writes.
func unescape(part string) (string, bool) {
	if part == empty {
		return "", true
	}
	s, ok := unescapeAny(part)
	return s, ok && s != "" && escape(s) == part
}

func unescapeAny(part string) (string, bool) {
	s, err := url.PathUnescape(part)
	return s, err == nil && utf8.ValidString(s)
}

// checkPath returns what ZooKeeper would refuse in a path, or nil.
func checkPath(path string) error {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case part == "":
			return errors.New("it has an empty part")
		case part == "." || part == "..":
			return errors.New("it is not absolute")
		case strings.ContainsFunc(part, func(r rune) bool { return r != '%' && refusedRune(r) }) || !utf8.ValidString(part):
			return errors.New("it has a character that ZooKeeper refuses")
		}
	}
	return nil
}

// split returns the folder and the last part of a path.
func split(path string) (folder, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

package zkbackend

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fairlock/fairlock/session/driver"
)

// layout turns names into paths and back. All of it is pure.
type layout struct {
	root string // begins with a slash, does not end with one; "" is the whole tree
	kind Layout
}

func newLayout(root string, kind Layout) layout {
	return layout{root: strings.TrimSuffix(root, "/"), kind: kind}
}

// sideFolders is where the second version of the layout keeps what belongs to queues and
// is no entry. It is not in the queues' folders: Curator sorts whatever it finds there,
// and go-zookeeper's Lock fails on it. No name is ever written like that: escape makes
// two capital digits of what follows a "%".
const sideFolders = "/%v2/"

// check returns why a name cannot be a path below the root, or nil.
func (l layout) check(name string) error {
	for i, part := range strings.Split(name, "/") {
		if _, ok := parseName(escape(part)); ok {
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
	if _, asks := driver.AskedQueue(queue); asks {
		return l.side(queue) + "/queue"
	}
	var b strings.Builder
	b.WriteString(l.root)
	for part := range strings.SplitSeq(queue, "/") {
		b.WriteByte('/')
		b.WriteString(escape(part))
	}
	return b.String()
}

// name is the inverse of folder, and false for a folder that is no queue of a user's name.
func (l layout) name(folder string) (string, bool) {
	rest, ok := strings.CutPrefix(folder, l.root+"/")
	if !ok {
		return "", false
	}
	parts := strings.Split(rest, "/")
	for i, p := range parts {
		if parts[i], ok = unescape(p); !ok {
			return "", false
		}
	}
	return strings.Join(parts, "/"), true
}

// side is the folder of what belongs to a queue and is no entry. The name is one part of
// the path there, so that the sides of "a" and "a/b" do not meet.
func (l layout) side(queue string) string {
	if name, asks := driver.AskedQueue(queue); asks {
		return l.side(name) + "/asks"
	}
	parts := strings.Split(queue, "/")
	for i, p := range parts {
		parts[i] = escape(p)
	}
	return l.root + sideFolders + strings.Join(parts, "%2F")
}

func (l layout) details(queue string) string { return l.side(queue) + "/details" }
func (l layout) holders(queue string) string { return l.side(queue) + "/holders" }
func (l layout) records(queue string) string { return l.side(queue) + "/records" }

// record is the node of a record, and version the node that is there for as long as the
// record has a version: see records. No escaped name has an "@".
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

// empty stands for a part of a name with nothing in it.
const empty = "%"

// escape makes a part of a name one that ZooKeeper takes as a part of a path: not empty,
// not a dot or two, and without the characters that Java's PathUtils.validatePath refuses
// (control characters, surrogates, private use, specials). It escapes byte by byte.
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

// escapeRecord makes one part of a path of a record's name.
func escapeRecord(name string) string {
	return escapeRunes(name, func(r rune) bool { return r == '@' || r == '.' || refusedRune(r) })
}

func escapeRunes(s string, must func(rune) bool) string {
	if strings.IndexFunc(s, must) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		// Of what is no UTF-8 this is one byte, whose rune is refused.
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

// refusedRune reports whether a character cannot stand in a path, or has a meaning here.
// Java looks at UTF-16, in which all beyond U+FFFF are surrogates.
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
	b := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c == '%' {
			if i+2 >= len(part) {
				return "", false
			}
			n, err := strconv.ParseUint(part[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			c, i = byte(n), i+2
		}
		b = append(b, c)
	}
	return string(b), utf8.Valid(b)
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

// Package shell writes words for shells: commands that a user copies, and completions
// that a shell inserts. Other clients choose the names of locks, so no name may reach a
// shell as anything but one word.
package shell

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

var (
	plain     = regexp.MustCompile(`^[\w@%+=:,./-]+$`)
	printable = regexp.MustCompile(`^[\x20-\x7e\p{L}\p{N}]*$`)
)

// Quote returns words as a user types them in a POSIX shell. A word with characters that
// cannot be printed is in $'…', which bash, zsh and ksh know.
func Quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		switch {
		case plain.MatchString(w):
			quoted[i] = w
		case printable.MatchString(w):
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		default:
			quoted[i] = "$'" + escaped(w) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func escaped(word string) string {
	var b strings.Builder
	for _, c := range []byte(word) {
		if c < 0x20 || c > 0x7e || c == '\'' || c == '\\' {
			fmt.Fprintf(&b, `\x%02x`, c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// Argument returns a name quoted as an argument after the flags, so that no name is read
// as a flag.
func Argument(name string) string {
	if strings.HasPrefix(name, "-") {
		return "-- " + Quote(name)
	}
	return Quote(name)
}

// Literal reports whether each of bash, zsh, fish and PowerShell reads an unquoted word as
// itself, and fairlock as an argument and not as a flag. The scripts of completion insert
// what several words have in common without quoting it, and bash's script passes that to
// eval at the next Tab.
func Literal(word string) bool {
	for i, r := range word {
		switch {
		case r == '_' || r == '.' || r == '/' || r == ':' || unicode.IsLetter(r) || unicode.IsDigit(r):
		case i > 0 && strings.ContainsRune("-+=@%", r): // "-a" is a flag, "=a" a path in zsh, "@a" a variable in PowerShell
		default:
			return false
		}
	}
	return word != ""
}

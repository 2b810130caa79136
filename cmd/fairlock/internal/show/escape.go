package show

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf16"
)

// escape replaces each character in a JSON text that cannot be printed by an escape, so
// that no name or label that another program chose changes what a terminal shows. Outside
// of strings JSON has no such character but the line feed. long writes a character that
// has more than 16 bits.
func escape(text []byte, long func(rune) string) []byte {
	if bytes.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case !unprintable(r):
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteString(long(r))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

func unprintable(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// surrogates writes a character as JSON does.
func surrogates(r rune) string {
	high, low := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, high, low)
}

// longEscape writes a character as YAML does.
func longEscape(r rune) string { return fmt.Sprintf(`\U%08x`, r) }

package shell

import (
	"os/exec"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"orders/4711":     "orders/4711",
		"":                "''",
		"a b":             "'a b'",
		"it's":            `'it'\''s'`,
		"a`touch x`":      "'a`touch x`'",
		"$(x)":            "'$(x)'",
		"größe":           "'größe'",
		"a\nb":            `$'a\x0ab'`,
		"\u202ea":         `$'\xe2\x80\xaea'`,
		"\x1b]0;x\x07'\\": `$'\x1b]0;x\x07\x27\x5c'`,
	} {
		assert.Equal(t, want, Quote(word), "%q", word)
	}
	assert.Equal(t, "echo 'a b' c", Quote("echo", "a b", "c"))
}

func TestArgumentIsNoFlag(t *testing.T) {
	assert.Equal(t, "-- --on=x", Argument("--on=x"))
	assert.Equal(t, "a-b", Argument("a-b"))
}

func TestLiteral(t *testing.T) {
	for _, word := range []string{"a", "orders/4711", "a-b", "a.b:c", "user@host", "größe", "日本", "a=b", "50%", "/a", "_a", "a+b"} {
		assert.True(t, Literal(word), "%q", word)
	}
	for _, word := range []string{
		"", "a b", "a\tb", "a\nb", "a`b`", "a$b", "a$(b)", "a;b", "a&b", "a|b", "a<b", "a>b", "a(b", "a)b", "a{b,c}", "a*", "a?", "a[b]",
		"a!b", "a#b", "~a", "a'b", `a"b`, `a\b`, "a^b", "-a", "--on=x", "=a", "@a", "%a", "+a", "a,b", "\u201ca\u201d", "a\u2019b", "a\u2013b", "a\u00a0b", "a\u202eb", "a\x7fb", "a\xffb",
	} {
		assert.False(t, Literal(word), "%q", word)
	}
}

// FuzzQuote: bash reads the quoted word back as it was.
func FuzzQuote(f *testing.F) {
	bash, err := exec.LookPath("bash")
	require.NoError(f, err)
	for _, word := range []string{"a", "it's", "a`touch x`", "$(x)", "a\nb", "\x1b'\\x41", "!!", "\xff\xfe"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if len(word) > 512 || !utf8.ValidString(word) {
			return
		}
		if slices.Contains([]byte(word), 0) {
			return // no argument of a process has one
		}
		out, err := exec.CommandContext(t.Context(), bash, "--norc", "-c", "printf %s "+Quote(word)).Output()
		require.NoError(t, err)
		assert.Equal(t, word, string(out))
		if Literal(word) {
			out, err = exec.CommandContext(t.Context(), bash, "--norc", "-c", "printf %s "+word).Output()
			require.NoError(t, err)
			assert.Equal(t, word, string(out))
		}
	})
}

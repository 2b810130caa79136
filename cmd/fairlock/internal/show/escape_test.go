package show

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// odd are names and labels that other programs may choose.
func odd() []string {
	return []string{
		"a", "größe", "\x7f", "a\u009b31mred", "\x1b[31m", "\u202egnitset", "a\u2028b\u2029", "\ufeffa", "\U000e0001tag", "a\x00b\r\nc\t",
		"\u00ad", "\u200b", "\U0010ffff", "\ue000", "null", "- a: b", "'", `"\`, "1e3", "a: b # c", "\u0085", "\ufffe", "\u00a0", "😀",
	}
}

func TestObjectsOfOddNamesAreReadBackAndChangeNoTerminal(t *testing.T) {
	for _, name := range odd() {
		assertHarmless(t, name)
	}
}

func FuzzObjectsOfOddNames(f *testing.F) {
	for _, name := range odd() {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if utf8.ValidString(name) {
			assertHarmless(t, name)
		}
	})
}

func assertHarmless(t *testing.T, name string) {
	t.Helper()
	want := []map[string]string{{"name": name}, {"name": "plain"}}
	for format, read := range map[string]func([]byte, any) error{
		JSON: json.Unmarshal,
		YAML: func(text []byte, v any) error { return yaml.Unmarshal(text, v) },
	} {
		var b bytes.Buffer
		require.NoError(t, All(output(t, "-o", format), &b, want), "%s %q", format, name)
		assert.True(t, strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) < 0, "%s %q: %q", format, name, b.String())
		var got []map[string]string
		require.NoError(t, read(b.Bytes(), &got), "%s %q: %s", format, name, b.String())
		assert.Equal(t, want, got, format)
	}
	var b bytes.Buffer
	require.NoError(t, Line(&b, want[0]))
	assert.Equal(t, 1, strings.Count(b.String(), "\n"))
	assert.True(t, strings.IndexFunc(strings.TrimSuffix(b.String(), "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) < 0, "%q", b.String())
}

package screen

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAPictureDoesNotScrollAndErasesTheOneBefore(t *testing.T) {
	s := picture([]Line{Text(Plain, "one"), {}, Text(Plain, "three")}, NewPaint(false))

	assert.Equal(t, "\x1b[Hone\x1b[K\r\n\x1b[K\r\nthree\x1b[K\x1b[J", s)
}

func TestPaint(t *testing.T) {
	l := Line{{"good", Good}, {" and plain", Plain}}

	assert.Equal(t, "good and plain", NewPaint(false).Line(l))
	coloured := NewPaint(true).Line(l)
	assert.Contains(t, coloured, "\x1b[")
	assert.True(t, strings.HasSuffix(coloured, " and plain"))
}

func TestCutCountsVisibleCharacters(t *testing.T) {
	l := Line{{"grün", Good}, {"blau", Bad}}

	assert.Equal(t, Line{{"grün", Good}, {"b", Bad}}, l.Cut(5))
	assert.Equal(t, "grü", l.Cut(3).String())
}

func TestPrintCuts(t *testing.T) {
	var b bytes.Buffer
	Print(&b, NewPaint(false), 3, Text(Plain, "abcdef"), Text(Plain, "ab"))

	assert.Equal(t, "abc\nab\n", b.String())
}

func TestPrintableReplacesControlCharacters(t *testing.T) {
	assert.Equal(t, "grün 日本 ✓", Printable("grün 日本 ✓"))
	assert.Equal(t, "?[2J?]0;x??a?b", Printable("\x1b[2J\x1b]0;x\x07\na\u202eb"))
	assert.Equal(t, "??", Printable("\u009b\t"))
}

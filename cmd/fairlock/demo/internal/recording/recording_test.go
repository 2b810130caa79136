package recording

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shown returns what a screen of 6 by 3 characters shows after the texts were written.
func shown(texts ...string) string {
	s := newScreen(Size{6, 3})
	for _, text := range texts {
		s.write([]byte(text))
	}
	return s.picture().String()
}

func TestTheScreenBehavesLikeATerminal(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"lines", "ab\r\ncd", "ab\ncd"},
		{"a line written over", "abcd\rxy", "xycd"},
		{"a line feed alone", "ab\ncd", "ab\n  cd"},
		{"a step back", "ab\bc", "ac"},
		{"a line that is too long", "abcdefgh", "abcdef\ngh"},
		{"more lines than fit", "1\r\n2\r\n3\r\n4", "2\n3\n4"},
		{"rest of the line", "abcd\r\x1b[Kx", "x"},
		{"rest of the screen", "ab\r\ncd\r\nef\x1b[Hx\x1b[J", "x"},
		{"all of the screen", "ab\r\ncd\x1b[2Jx", "\n  x"},
		{"a place", "\x1b[2;3Hx\x1b[9;9Hy", "\n  x\n     y"},
		{"the other screen", "ab\x1b[?1049hcde\x1b[?1049l!", "ab!"},
		{"while it is there", "ab\x1b[?1049hcd", "cd"},
		{"what is not visible", "\x1b[?25l\x1b[1;32ma\x1b[0mb\x07\x1b(c", "abc"},
		{"more than a byte", "grün✓", "grün✓"},
	} {
		assert.Equal(t, c.want, shown(c.text), c.name)
		whole := []byte(c.text)
		for i := range whole {
			assert.Equal(t, c.want, shown(string(whole[:i]), string(whole[i:])), "%s, cut at %d", c.name, i)
		}
	}
}

func TestAttributes(t *testing.T) {
	s := newScreen(Size{8, 1})
	s.write([]byte("a\x1b[1;31mb\x1b[22mc\x1b[39md\x1b[2me\x1b[mf"))

	var all []attributes
	for _, c := range s.picture()[0][:6] {
		all = append(all, c.attributes)
	}
	assert.Equal(t, []attributes{{}, {bold: true, colour: 31}, {colour: 31}, {}, {faint: true}, {}}, all)
}

func TestFramesAreTakenAtIntervals(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	chunks := []Chunk{{ms(10), []byte("a")}, {ms(20), []byte("b")}, {ms(130), []byte("c")}, {ms(420), []byte("d")}}

	frames := Frames("x", chunks, Size{6, 2}, ms(100), ms(500), ms(1000))

	var got []string
	var all time.Duration
	for _, f := range frames {
		got = append(got, strings.TrimPrefix(f.Picture.String(), "$ x\n"))
		all += f.For
	}
	assert.Equal(t, []string{"$ x", "ab", "abc", "abcd"}, got)
	assert.Equal(t, []time.Duration{ms(500), ms(100), ms(300), ms(1000)}, []time.Duration{frames[0].For, frames[1].For, frames[2].For, frames[3].For})
}

// wellFormed checks that an SVG is well-formed, and returns its texts, one after the other.
func wellFormed(t *testing.T, text []byte) string {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	var b strings.Builder
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		require.NoError(t, err)
		if c, ok := tok.(xml.CharData); ok {
			b.Write(c)
		}
	}
}

func TestAnSVGIsWellFormedAndTimesEachFrame(t *testing.T) {
	size := Size{20, 2}
	var frames []Frame
	for _, text := range []string{"one", "one\r\n\x1b[32m<two>\x1b[0m   & far", "three"} {
		s := newScreen(size)
		s.write([]byte(text))
		frames = append(frames, Frame{s.picture(), time.Second})
	}
	frames[2].For = 2 * time.Second
	var b bytes.Buffer

	require.NoError(t, SVG(&b, "A <film>", size, frames))

	text := b.String()
	assert.Contains(t, wellFormed(t, b.Bytes()), "A <film>")
	assert.Equal(t, 1, strings.Count(text, ">one<"), "a row is written once")
	assert.Contains(t, text, `<tspan x="0.0" class="c32">&lt;two&gt;</tspan><tspan x="67.2">&amp; far</tspan>`)
	assert.Contains(t, text, "animation:play 4.00s step-end infinite")
	assert.Contains(t, text, "0.000%{transform:translate(0px)}\n25.000%{transform:translate(-196px)}\n50.000%{transform:translate(-392px)}\n}")
	assert.Contains(t, text, `<g class="film" transform="translate(-392)">`, "a viewer that does not play it shows the last frame")
	assert.Equal(t, 3, strings.Count(text, `<g transform=`))
}

func TestTheRecordingInTheDocsShowsNoViolation(t *testing.T) {
	text, err := os.ReadFile("../../../../../docs/demo.svg")
	require.NoError(t, err)
	texts := wellFormed(t, text)

	for _, want := range []string{"$ make demo", "all as promised, in", "REFUSED", "STOPPED", "KILLED"} {
		assert.Contains(t, texts, want)
	}
	assert.NotContains(t, texts, "noticed in time", "the machine was too busy: record it again")
	assert.Less(t, len(text), 300<<10)
	frames := len(regexp.MustCompile(`\d%\{transform`).FindAll(text, -1))
	assert.Greater(t, frames, 50)
	assert.Equal(t, frames, strings.Count(string(text), `<g transform=`))
}

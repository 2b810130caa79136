package recording

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// attributes are how a character is shown.
type attributes struct {
	bold, faint bool
	colour      int // 0 is the default, 30 to 37 are the numbers that terminals use
}

// cell is one character.
type cell struct {
	r          rune
	attributes attributes
}

// Picture is what a screen shows, row by row.
type Picture [][]cell

func (p Picture) equal(q Picture) bool {
	return slices.EqualFunc(p, q, slices.Equal)
}

// String returns the text of the picture, without blanks at the end of lines and empty
// lines at the end.
func (p Picture) String() string {
	var b strings.Builder
	for _, row := range p {
		var line strings.Builder
		for _, c := range row {
			line.WriteRune(c.r)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// screen emulates the screen of a terminal, as far as our programs use it.
type screen struct {
	size     Size
	rows     Picture
	other    Picture // the screen that is not shown
	row, col int
	cursor   [2]int // the cursor of the other screen
	attr     attributes
	rest     []byte // the beginning of a sequence or character that is not complete
}

func newScreen(size Size) *screen {
	return &screen{size: size, rows: blank(size), other: blank(size)}
}

func blank(size Size) Picture {
	p := make(Picture, size.Rows)
	for i := range p {
		p[i] = slices.Repeat([]cell{{r: ' '}}, size.Columns)
	}
	return p
}

func (s *screen) picture() Picture {
	p := make(Picture, len(s.rows))
	for i := range p {
		p[i] = slices.Clone(s.rows[i])
	}
	return p
}

// write shows text. It ignores sequences that it does not know.
func (s *screen) write(text []byte) {
	text = append(s.rest, text...)
	s.rest = nil
	for len(text) > 0 {
		n := s.one(text)
		if n == 0 {
			s.rest = slices.Clone(text)
			return
		}
		text = text[n:]
	}
}

// one handles the first character or sequence of text, and returns its length; 0 if it is
// not complete yet.
func (s *screen) one(text []byte) int {
	switch text[0] {
	case '\r':
		s.col = 0
	case '\n':
		s.down()
	case '\b':
		s.col = max(s.col-1, 0)
	case 0x1b:
		return s.escape(text)
	default:
		if text[0] < ' ' {
			return 1
		}
		if !utf8.FullRune(text) {
			return 0
		}
		r, n := utf8.DecodeRune(text)
		s.put(r)
		return n
	}
	return 1
}

func (s *screen) put(r rune) {
	if s.col == s.size.Columns {
		s.col = 0
		s.down()
	}
	s.rows[s.row][s.col] = cell{r, s.attr}
	s.col++
}

func (s *screen) down() {
	s.row++
	if s.row == s.size.Rows {
		s.row--
		s.rows = append(s.rows[1:], blank(Size{s.size.Columns, 1})...)
	}
}

// escape executes the escape sequence that text begins with, and returns its length; 0 if
// it is not complete yet.
func (s *screen) escape(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	if text[1] != '[' {
		return 2
	}
	end := slices.IndexFunc(text[2:], func(b byte) bool { return b >= '@' && b <= '~' })
	if end < 0 {
		return 0
	}
	s.control(string(text[2:2+end]), text[2+end])
	return end + 3
}

// control executes a control sequence with these arguments and this final letter.
func (s *screen) control(args string, final byte) {
	switch final {
	case 'H':
		at := numbers(args)
		at = append(at, 1, 1)
		s.row, s.col = min(max(at[0], 1), s.size.Rows)-1, min(max(at[1], 1), s.size.Columns)-1
	case 'K':
		s.wipe(s.row, s.col)
	case 'J':
		from := s.row
		if args == "2" {
			from = -1
		} else {
			s.wipe(s.row, s.col)
		}
		for i := from + 1; i < s.size.Rows; i++ {
			s.wipe(i, 0)
		}
	case 'm':
		for _, n := range append(numbers(args), 0)[:max(1, len(numbers(args)))] {
			s.setAttribute(n)
		}
	case 'h', 'l':
		if args == "?1049" {
			s.rows, s.other = s.other, s.rows
			s.cursor, s.row, s.col = [2]int{s.row, s.col}, s.cursor[0], s.cursor[1]
			if final == 'h' {
				s.rows, s.row, s.col = blank(s.size), 0, 0
			}
		}
	}
}

// wipe erases a row from a column on.
func (s *screen) wipe(row, from int) {
	for i := from; i < s.size.Columns; i++ {
		s.rows[row][i] = cell{r: ' '}
	}
}

// setAttribute executes one argument of an SGR sequence.
func (s *screen) setAttribute(n int) {
	switch {
	case n == 0:
		s.attr = attributes{}
	case n == 1:
		s.attr.bold = true
	case n == 2:
		s.attr.faint = true
	case n == 22:
		s.attr.bold, s.attr.faint = false, false
	case n >= 30 && n <= 37:
		s.attr.colour = n
	case n == 39:
		s.attr.colour = 0
	}
}

func numbers(args string) []int {
	var all []int
	for f := range strings.SplitSeq(args, ";") {
		if n, err := strconv.Atoi(f); err == nil {
			all = append(all, n)
		}
	}
	return all
}

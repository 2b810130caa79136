package top

import (
	"strings"
	"unicode/utf8"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// column is a column of a table that is fitted to the terminal.
type column struct {
	title string
	// least is the width to which the column may be shortened; 0 if it may not be.
	least int
	// drop is not 0 if the column may be dropped when shortening is not enough. The
	// column with the highest drop is dropped first.
	drop   int
	marked bool // the table is sorted by it
}

// table collects the rows of a table.
type table struct {
	columns []column
	rows    [][]string
	tones   []screen.Tone
}

func newTable(columns ...column) *table {
	t := &table{columns: columns}
	var head []string
	for _, c := range columns {
		head = append(head, c.title)
	}
	t.add(screen.Head, head...)
	return t
}

func (t *table) add(tone screen.Tone, cells ...string) {
	for i, c := range cells {
		cells[i] = screen.Printable(c)
		if c == "" {
			cells[i] = "-"
		}
	}
	t.rows, t.tones = append(t.rows, cells), append(t.tones, tone)
}

const gap = 2 // between columns

// widths fits the columns into a width: it shortens the longest columns that may be
// shortened, then drops columns. A width of 0 is a column that is dropped.
func (t *table) widths(width int) []int {
	natural := make([]int, len(t.columns))
	for _, row := range t.rows {
		for i, c := range row {
			natural[i] = max(natural[i], utf8.RuneCountInString(c))
		}
	}
	for i, c := range t.columns {
		if c.marked {
			natural[i] = max(natural[i], len(c.title)+1)
		}
	}
	for {
		w := shrunk(t.columns, natural, width)
		out := -1
		for i, c := range t.columns {
			if w[i] > 0 && c.drop > 0 && !c.marked && (out < 0 || c.drop > t.columns[out].drop) {
				out = i
			}
		}
		if total(w) <= width || out < 0 {
			return w
		}
		natural[out] = 0
	}
}

// shrunk shortens the longest column that may be shortened, again and again until all
// columns fit.
func shrunk(columns []column, natural []int, width int) []int {
	w := append([]int(nil), natural...)
	for total(w) > width {
		longest := -1
		for i, c := range columns {
			if c.least > 0 && w[i] > max(c.least, len(c.title)) && (longest < 0 || w[i] > w[longest]) {
				longest = i
			}
		}
		if longest < 0 {
			break
		}
		w[longest]--
	}
	return w
}

func total(w []int) int {
	sum := -gap
	for _, n := range w {
		if n > 0 {
			sum += n + gap
		}
	}
	return sum
}

// lines returns the rows. A cell that is shortened ends with "~".
func (t *table) lines(width int) []screen.Line {
	w := t.widths(width)
	var all []screen.Line
	for r, row := range t.rows {
		var b strings.Builder
		for i, c := range row {
			if w[i] == 0 {
				continue
			}
			if r == 0 && t.columns[i].marked {
				c += "*"
			}
			n := utf8.RuneCountInString(c)
			if n > w[i] {
				c = string([]rune(c)[:w[i]-1]) + "~"
			} else {
				c += strings.Repeat(" ", w[i]-n)
			}
			b.WriteString(c + strings.Repeat(" ", gap))
		}
		all = append(all, screen.Text(t.tones[r], "%s", strings.TrimRight(b.String(), " ")))
	}
	return all
}

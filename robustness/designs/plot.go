package designs

import (
	"bytes"
	"fmt"
	"image/color"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// line is one row of a picture: a design, or the name of a store.
type line struct {
	store  *Store
	design *Design // nil for the name of a store
}

// pictured returns the rows of the pictures, from the top.
func pictured() (all []line) {
	for _, s := range Stores() {
		all = append(all, line{store: s})
		for _, d := range s.Designs() {
			all = append(all, line{s, d})
		}
	}
	return all
}

// A shade is the colour of the worst that was lost. Both the colour and the letter in the cell say it.
type shade struct {
	text, letter string
	fill         color.Color
}

func shades() []shade {
	return []shade{
		{"nothing lost", "", color.RGBA{0xd9, 0xee, 0xe1, 0xff}},
		{"a waiter is never granted", "N", color.RGBA{0xfd, 0xe3, 0xa7, 0xff}},
		{"an orphan", "O", color.RGBA{0xf0, 0xa9, 0x4a, 0xff}},
		{"two at once", "2", color.RGBA{0xe3, 0x7f, 0x6c, 0xff}},
		{"an update lost", "U", color.RGBA{0xb0, 0x2a, 0x30, 0xff}},
		{"not tried", "–", color.RGBA{0xf4, 0xf4, 0xf4, 0xff}},
	}
}

// shade returns the shade of a tally.
func (y *tally) shade() shade {
	all := shades()
	switch {
	case y.hit == 0:
		return all[5]
	case y.lost > 0:
		return all[4]
	case y.two > 0:
		return all[3]
	case y.orphan > 0:
		return all[2]
	case y.never > 0:
		return all[1]
	}
	return all[0]
}

// The left edge of the names, where the cells begin at 0.
const left = -4.9

// write writes a text into a row of a picture.
func write(dc draw.Canvas, p *plot.Plot, col, row float64, size float64, align text.XAlignment, ink color.Color, what string) {
	x, y := p.Transforms(&dc)
	dc.FillText(label(size, align, ink), vg.Point{X: x(col), Y: y(-row - 0.5)}, what)
}

// writeName writes the name of a row.
func writeName(dc draw.Canvas, p *plot.Plot, row int, l line) {
	if l.design != nil {
		write(dc, p, left+0.3, float64(row), 9, draw.XLeft, color.Black, l.design.Name)
		return
	}
	x, y := p.Transforms(&dc)
	style := label(9, draw.XLeft, color.Black)
	style.Font.Weight = xfont.WeightBold
	dc.FillText(style, vg.Point{X: x(left), Y: y(-float64(row) - 0.5)}, l.store.Title)
}

// box fills a part of a row.
func box(dc draw.Canvas, p *plot.Plot, col, row, width, margin float64, fill color.Color) {
	x, y := p.Transforms(&dc)
	dc.FillPolygon(fill, []vg.Point{
		{X: x(col), Y: y(-row - margin)},
		{X: x(col + width), Y: y(-row - margin)},
		{X: x(col + width), Y: y(-row - 1 + margin)},
		{X: x(col), Y: y(-row - 1 + margin)},
	})
}

// fill fills a cell with a shade and its letter.
func (s shade) fillCell(dc draw.Canvas, p *plot.Plot, col, row, width float64) {
	box(dc, p, col+0.03, row, width-0.06, 0.06, s.fill)
	ink := color.Color(color.Black)
	if s.letter == "U" {
		ink = color.White
	}
	write(dc, p, col+width/2, row, 8, draw.XCenter, ink, s.letter)
}

// cells is a plotter of the table fault × design.
type cells struct {
	d     *Data
	lines []line
}

// Plot implements plot.Plotter.
func (c *cells) Plot(dc draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&dc)
	for row, l := range c.lines {
		writeName(dc, p, row, l)
		if l.design == nil {
			continue
		}
		for col, f := range Faults() {
			c.d.tallied(l.store, l.design, f).shade().fillCell(dc, p, float64(col), float64(row), 1)
		}
	}
	for col, f := range Faults() {
		style := label(9, draw.XLeft, color.Black)
		style.Rotation, style.YAlign = 0.7, draw.YBottom
		dc.FillText(style, vg.Point{X: x(float64(col) + 0.4), Y: y(0.15)}, f.Text)
	}
	for i, s := range shades() {
		row, col := float64(len(c.lines))+0.6+float64(i/2), float64(i%2)*8+left
		s.fillCell(dc, p, col, row, 0.7)
		write(dc, p, col+0.9, row, 9, draw.XLeft, color.Black, s.text)
	}
}

// bars is a plotter of the requests of a waiter.
type bars struct {
	d     *Data
	lines []line
	most  float64
}

// Plot implements plot.Plotter.
func (b *bars) Plot(dc draw.Canvas, p *plot.Plot) {
	const width = 10.0 // of the longest bar
	for row, l := range b.lines {
		writeName(dc, p, row, l)
		if l.design == nil {
			continue
		}
		m := b.d.measured(l.store, l.design)
		if m == nil {
			write(dc, p, 0.1, float64(row), 8, draw.XLeft, color.Black, "not measured")
			continue
		}
		fill, text := color.RGBA{0x00, 0x72, 0xb2, 0xff}, fmt.Sprintf("%.1f, granted in order", m.Idle)
		if m.Overtaken > 0 {
			fill, text = color.RGBA{0xd5, 0x8e, 0x4f, 0xff}, fmt.Sprintf("%.1f, %d of %d grants overtook", m.Idle, m.Overtaken, m.Grants)
		}
		long := width * m.Idle / b.most
		box(dc, p, 0, float64(row), long, 0.18, fill)
		write(dc, p, long+0.15, float64(row), 8, draw.XLeft, color.Black, text)
	}
}

// label returns the style of a text.
func label(size float64, align text.XAlignment, ink color.Color) text.Style {
	style := plot.New().X.Label.TextStyle
	style.Font.Size, style.XAlign, style.YAlign, style.Color = vg.Points(size), align, draw.YCenter, ink
	return style
}

// svg draws rows on white, with so many rows of space above and below.
func svg(of plot.Plotter, rows int, above, below float64) ([]byte, error) {
	p := plot.New()
	p.HideAxes()
	p.BackgroundColor = color.White
	p.X.Min, p.X.Max = left, float64(len(Faults()))+3
	p.Y.Min, p.Y.Max = -float64(rows)-below, above
	p.Add(of)
	canvas := vgsvg.New(22*vg.Centimeter, vg.Length((float64(rows)+above+below)*0.55)*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	_, err := canvas.WriteTo(&out)
	return out.Bytes(), err
}

// PlotLost draws what each design has lost under each fault.
func (d *Data) PlotLost() ([]byte, error) {
	lines := pictured()
	return svg(&cells{d, lines}, len(lines), 6, 4)
}

// PlotLoad draws how many requests a waiter sends in a second while nothing happens.
func (d *Data) PlotLoad() ([]byte, error) {
	most := 1.0
	for _, m := range d.measures {
		most = max(most, m.Idle)
	}
	lines := pictured()
	return svg(&bars{d, lines, most}, len(lines), 0.5, 0.5)
}

package designs

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
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
		{"two at once, and an update lost", "U", color.RGBA{0xb0, 0x2a, 0x30, 0xff}},
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

// cells is a plotter of the table fault × design.
type cells struct {
	d     *Data
	lines []line
}

// Plot implements plot.Plotter.
func (c *cells) Plot(dc draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&dc)
	faults := Faults()
	at := func(col, row, width float64) []vg.Point {
		return []vg.Point{
			{X: x(col + 0.03), Y: y(-row - 0.06)},
			{X: x(col + width - 0.03), Y: y(-row - 0.06)},
			{X: x(col + width - 0.03), Y: y(-row - 0.94)},
			{X: x(col + 0.03), Y: y(-row - 0.94)},
		}
	}
	for row, l := range c.lines {
		if l.design == nil {
			style := label(9, draw.XLeft, color.Black)
			style.Font.Weight = 2
			dc.FillText(style, vg.Point{X: x(-4), Y: y(-float64(row) - 0.5)}, l.store.Title)
			continue
		}
		dc.FillText(label(9, draw.XRight, color.Black), vg.Point{X: x(-0.12), Y: y(-float64(row) - 0.5)}, l.design.Name)
		for col, f := range faults {
			tallied := c.d.tallied(l.store, l.design, f)
			s := tallied.shade()
			dc.FillPolygon(s.fill, at(float64(col), float64(row), 1))
			ink := color.Color(color.Black)
			if s.letter == "U" {
				ink = color.White
			}
			dc.FillText(label(8, draw.XCenter, ink), vg.Point{X: x(float64(col) + 0.5), Y: y(-float64(row) - 0.5)}, s.letter)
		}
	}
	for col, f := range faults {
		style := label(9, draw.XLeft, color.Black)
		style.Rotation = 0.6
		style.YAlign = draw.YBottom
		dc.FillText(style, vg.Point{X: x(float64(col) + 0.4), Y: y(0.15)}, f.Text)
	}
	for i, s := range shades() {
		row := float64(len(c.lines)) + 0.6 + float64(i/3)
		col := float64(i%3)*5 - 3.4
		dc.FillPolygon(s.fill, at(col, row, 0.7))
		ink := color.Color(color.Black)
		if s.letter == "U" {
			ink = color.White
		}
		dc.FillText(label(8, draw.XCenter, ink), vg.Point{X: x(col + 0.35), Y: y(-row - 0.5)}, s.letter)
		dc.FillText(label(9, draw.XLeft, color.Black), vg.Point{X: x(col + 0.85), Y: y(-row - 0.5)}, s.text)
	}
}

// label returns the style of a text.
func label(size float64, align text.XAlignment, ink color.Color) text.Style {
	style := plot.New().X.Label.TextStyle
	style.Font.Size, style.XAlign, style.YAlign, style.Color = vg.Points(size), align, draw.YCenter, ink
	return style
}

// svg draws a plot on white.
func svg(p *plot.Plot, width, height vg.Length) ([]byte, error) {
	canvas := vgsvg.New(width, height)
	p.BackgroundColor = color.White
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	_, err := canvas.WriteTo(&out)
	return out.Bytes(), err
}

// PlotLost draws what each design has lost under each fault.
func (d *Data) PlotLost() ([]byte, error) {
	lines := pictured()
	p := plot.New()
	p.HideAxes()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -4, float64(len(Faults()))+2.4, -float64(len(lines))-2.8, 5
	p.Add(&cells{d, lines})
	return svg(p, 22*vg.Centimeter, vg.Length(len(lines)+8)*0.56*vg.Centimeter)
}

// PlotLoad draws how many requests a waiter sends in a second.
func (d *Data) PlotLoad() ([]byte, error) {
	p := plot.New()
	p.Title.Text = "Requests of one waiter in a second, while nothing happens"
	p.X.Min = 0
	var names []string
	all := pictured()
	slices.Reverse(all)
	i := 0
	for _, l := range all {
		if l.design == nil {
			continue
		}
		m := d.measured(l.store, l.design)
		if m == nil {
			continue
		}
		bar, err := plotter.NewBarChart(plotter.Values{m.Idle}, vg.Points(9))
		if err != nil {
			return nil, err
		}
		bar.Horizontal, bar.XMin, bar.LineStyle.Width = true, float64(i), 0
		bar.Color = color.RGBA{0x00, 0x72, 0xb2, 0xff}
		kept := fmt.Sprintf("%.1f, in order", m.Idle)
		if m.Overtaken > 0 {
			bar.Color = color.RGBA{0xd5, 0x8e, 0x4f, 0xff}
			kept = fmt.Sprintf("%.1f, %d of %d overtook", m.Idle, m.Overtaken, m.Grants)
		}
		at, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: m.Idle + 0.6, Y: float64(i)}}, Labels: []string{kept}})
		if err != nil {
			return nil, err
		}
		at.TextStyle[0].Font.Size, at.TextStyle[0].YAlign = vg.Points(8), draw.YCenter
		p.Add(bar, at)
		p.X.Max = max(p.X.Max, m.Idle*1.3)
		names = append(names, l.store.Title+": "+l.design.Name)
		i++
	}
	if i == 0 {
		return nil, errors.New("designs: nothing was measured")
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.8, float64(i)-0.2
	return svg(p, 22*vg.Centimeter, vg.Length(i+4)*0.55*vg.Centimeter)
}

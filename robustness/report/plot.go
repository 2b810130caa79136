package report

import (
	"bytes"
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/fairlock/fairlock/robustness/trial"
)

// Sizes of the plot: one tile for each service.
const (
	tileWidth  = 12 * vg.Centimeter
	tileHeight = 11 * vg.Centimeter
)

// Plot draws a point for every holder that was cut off: when it was notified against
// when the store had removed its entry. The holders in the shaded half were notified
// when another client could already hold. Plot returns SVG, or nil if there are no points.
func (d *Data) Plot(services []Service) ([]byte, error) {
	canvas := vgsvg.New(tileWidth*vg.Length(len(services)), tileHeight)
	if drawn, err := d.draw(draw.New(canvas), services); err != nil || !drawn {
		return nil, err
	}
	var out bytes.Buffer
	_, err := canvas.WriteTo(&out)
	return out.Bytes(), err
}

// draw draws all tiles on a canvas, and reports whether there were any points.
func (d *Data) draw(dc draw.Canvas, services []Service) (drawn bool, err error) {
	// The same scale for all tiles, so that they can be compared.
	most := 0.0
	for _, s := range services {
		for _, lock := range s.locks() {
			for _, p := range d.notified(s.Name, lock) {
				most = max(most, p.X, p.Y)
			}
		}
	}
	if most == 0 {
		return false, nil
	}
	most *= 1.2 // room for the legend
	tiles := make([]*plot.Plot, len(services))
	for i, s := range services {
		tiles[i], err = d.tile(s, most)
		if err != nil {
			return false, err
		}
	}
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	layout := draw.Tiles{Rows: 1, Cols: len(tiles), PadX: 8, PadTop: 8, PadBottom: 8, PadLeft: 8, PadRight: 12}
	for i, c := range plot.Align([][]*plot.Plot{tiles}, layout, dc)[0] {
		tiles[i].Draw(c)
	}
	return true, nil
}

// notified returns the points of a lock, in seconds since the cut: when the store had
// removed the entry (X), and when the holder was notified (Y). A trial in which one of
// the two was not observed has no point.
func (d *Data) notified(service, lock string) plotter.XYs {
	var all plotter.XYs
	for _, r := range d.trials {
		if r.Service != service || r.Lock != lock || !r.Hit() || !slices.Contains(cutKinds(), r.Kind) {
			continue
		}
		removed, wasRemoved := r.Figures[trial.FaultToGone]
		notified, wasNotified := r.Figures[trial.FaultToNotified]
		if wasRemoved && wasNotified {
			all = append(all, plotter.XY{X: removed.Seconds(), Y: notified.Seconds()})
		}
	}
	return all
}

// glyph returns the style of a lock's points. The shapes differ too, for readers who see
// few colours.
func glyph(i int) draw.GlyphStyle {
	all := []draw.GlyphStyle{
		{Color: color.RGBA{G: 0x72, B: 0xb2, A: 0xff}, Shape: draw.CircleGlyph{}, Radius: vg.Points(2.5)},
		{Color: color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}, Shape: draw.PyramidGlyph{}, Radius: vg.Points(3)},
		{Color: color.RGBA{A: 0xff}, Shape: draw.CrossGlyph{}, Radius: vg.Points(2.5)},
	}
	return all[i%len(all)]
}

func (d *Data) tile(s Service, most float64) (*plot.Plot, error) {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = "Holders cut off, " + s.Title
	p.X.Label.Text, p.Y.Label.Text = "s until the store had removed the entry", "s until the holder was notified"
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, most, 0, most
	p.X.Tick.Marker, p.Y.Tick.Marker = seconds(most), seconds(most)
	p.Legend.Left, p.Legend.Top, p.Legend.Padding = true, true, vg.Points(3)
	p.Legend.TextStyle.Font.Size = vg.Points(9)

	late, err := plotter.NewPolygon(plotter.XYs{{X: 0, Y: 0}, {X: most, Y: most}, {X: 0, Y: most}})
	if err != nil {
		return nil, err
	}
	late.Color, late.LineStyle.Width = color.Gray{Y: 0xe8}, 0
	labels, err := plotter.NewLabels(plotter.XYLabels{
		XYs:    plotter.XYs{{X: most * 0.03, Y: most * 0.62}, {X: most * 0.03, Y: most * 0.57}},
		Labels: []string{"notified after the store", "had removed the entry"},
	})
	if err != nil {
		return nil, err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Size = vg.Points(9)
		labels.TextStyle[i].Color = color.Gray{Y: 0x40}
	}
	p.Add(late, plotter.NewGrid(), labels)
	for i, lock := range s.locks() {
		points := d.notified(s.Name, lock)
		if len(points) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return nil, err
		}
		dots.GlyphStyle = glyph(i)
		p.Add(dots)
		p.Legend.Add(fmt.Sprintf("%s (%d cuts)", lock, len(points)), dots)
	}
	return p, nil
}

// seconds returns a tick for every second.
func seconds(most float64) plot.ConstantTicks {
	var all plot.ConstantTicks
	for v := 0.0; v <= most; v++ {
		all = append(all, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', 0, 64)})
	}
	return all
}

// afterRemoval returns how long after the removal of its entry a lock's holder was
// notified, at the worst of all points; less than 0 is before. It returns "" if there are
// no points.
func (d *Data) afterRemoval(service, lock string) string {
	var late []float64
	for _, p := range d.notified(service, lock) {
		late = append(late, p.Y-p.X)
	}
	if len(late) == 0 {
		return ""
	}
	return span(time.Duration(slices.Max(late) * float64(time.Second)))
}

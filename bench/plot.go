package main

import (
	"bytes"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/fairlock/fairlock/bench/stand"
)

// Sizes of the plot: one tile for each kind of cluster.
const (
	tileWidth  = 13 * vg.Centimeter
	tileHeight = 10 * vg.Centimeter
)

// drawHandOffs plots the hand-off against the length of the queue, as SVG, with a tile for each kind
// of cluster; nil if no queue was measured.
func drawHandOffs(on *service, r *record) ([]byte, error) {
	var kinds []stand.Kind
	low, high := 0.0, 0.0
	for _, f := range r.figures {
		if f.Scenario != "line" || f.Metric != metricHandOffP50 {
			continue
		}
		if !slices.Contains(kinds, f.Cluster) {
			kinds = append(kinds, f.Cluster)
		}
		s := spreadOf(f.Rounds)
		if low == 0 || s.Min < low {
			low = s.Min
		}
		high = max(high, s.Max)
	}
	if kinds == nil {
		return nil, nil
	}
	tiles := make([]*plot.Plot, len(kinds))
	for i, kind := range kinds {
		p, err := handOffPlot(on, r, kind)
		if err != nil {
			return nil, err
		}
		// The same scale for all tiles, with room for the legend.
		p.Y.Min, p.Y.Max = low/1.5/1000, high*5/1000
		tiles[i] = p
	}
	canvas := vgsvg.New(tileWidth*vg.Length(len(tiles)), tileHeight)
	dc := draw.New(canvas)
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	layout := draw.Tiles{Rows: 1, Cols: len(tiles), PadX: 8, PadTop: 8, PadBottom: 8, PadLeft: 8, PadRight: 12}
	for i, c := range plot.Align([][]*plot.Plot{tiles}, layout, dc)[0] {
		tiles[i].Draw(c)
	}
	var out bytes.Buffer
	_, err := canvas.WriteTo(&out)
	return out.Bytes(), err
}

// handOffPlot draws one line for each contestant, with the spread as bars.
func handOffPlot(on *service, r *record, kind stand.Kind) (*plot.Plot, error) {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = fmt.Sprintf("Hand-off in a queue, %s %s", on.Name, kind)
	p.X.Label.Text, p.Y.Label.Text = "length of the queue", "hand-off in ms, p50"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(3)
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Add(plotter.NewGrid())
	for _, c := range on.Contestants {
		points := pointsOf(r, kind, c.Name)
		if len(points.XYs) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points.XYs)
		if err != nil {
			return nil, err
		}
		bars, err := plotter.NewYErrorBars(points)
		if err != nil {
			return nil, err
		}
		colour := color.RGBA{R: 0xd5, G: 0x5e, A: 0xff} // these colours differ for colour-blind readers
		switch {
		case c.Old:
			colour = color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}
		case c.Ours:
			colour = color.RGBA{G: 0x72, B: 0xb2, A: 0xff}
		case c.Bare:
			colour = color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff}
		}
		line.Color, dots.Color, bars.Color = colour, colour, colour
		line.Width, dots.Radius, dots.Shape = vg.Points(1.5), vg.Points(2.5), draw.CircleGlyph{}
		if !c.Alone {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
			dots.Shape = draw.BoxGlyph{}
		}
		p.Add(line, dots, bars)
		p.Legend.Add(c.Name, line, dots)
	}
	return p, nil
}

// spreadPoints are medians with bars from the smallest to the greatest value.
type spreadPoints struct {
	plotter.XYs
	plotter.YErrors
}

func pointsOf(r *record, kind stand.Kind, contestant string) spreadPoints {
	var p spreadPoints
	for _, f := range r.figures {
		if f.Scenario != "line" || f.Metric != metricHandOffP50 || f.Cluster != kind || f.Contestant != contestant {
			continue
		}
		s := spreadOf(f.Rounds)
		p.XYs = append(p.XYs, plotter.XY{X: float64(f.Size), Y: s.Median / 1000})
		p.YErrors = append(p.YErrors, struct{ Low, High float64 }{(s.Median - s.Min) / 1000, (s.Max - s.Median) / 1000})
	}
	return p
}

package main

import (
	"bytes"
	"fmt"
	"image/color"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/fairlock/fairlock/bench/stand"
)

// Sizes of the plots: one tile for each kind of cluster.
const (
	tileWidth  = 13 * vg.Centimeter
	tileHeight = 10 * vg.Centimeter
)

// drawHandOffs plots the hand-off against the length of the queue, as SVG, with a tile for each kind
// of cluster; nil if no queue was measured.
func drawHandOffs(on *service, r *record) ([]byte, error) {
	var tiles []*plot.Plot
	for _, kind := range kindsIn(r, "line", func(k stand.Kind) string { return string(k) }) {
		p := newTile(fmt.Sprintf("Hand-off in a queue, %s %s", on.Name, kind), "length of the queue", "hand-off in ms, p50")
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		for _, c := range on.Contestants {
			points := pointsOf(r, metricHandOffP50, func(k key) (x float64, wanted bool) {
				return float64(k.Size), k.Scenario == "line" && string(k.Cluster) == kind && k.Contestant == c.Name
			})
			if err := addLine(p, c, c.Name, !c.Alone, points); err != nil {
				return nil, err
			}
		}
		tiles = append(tiles, p)
	}
	return drawn(tiles)
}

// drawPasses plots the hand-off inside one process against the round trip, as SVG; nil if none was
// measured. For the present code it has the mean time too: a hand-off in the middle of many does not
// show how long the others waited for answers.
func drawPasses(on *service, r *record) ([]byte, error) {
	var tiles []*plot.Plot
	for _, near := range kindsIn(r, "pass", nearOf) {
		p := newTile(fmt.Sprintf("Hand-off in one process, %s %s", on.Name, near), "round trip added, in ms", "hand-off in ms")
		for _, c := range on.together() {
			metrics := []string{metricHandOffP50}
			if c.Ours && !c.Old {
				metrics = append(metrics, metricHandOff)
			}
			for i, metric := range metrics {
				points := pointsOf(r, metric, func(k key) (x float64, wanted bool) {
					return float64(k.Cluster.RTT()) / float64(time.Millisecond),
						k.Scenario == "pass" && nearOf(k.Cluster) == near && k.Contestant == c.Name
				})
				if err := addLine(p, c, c.Name+strings.TrimPrefix(metric, "hand-off"), i > 0, points); err != nil {
					return nil, err
				}
			}
		}
		tiles = append(tiles, p)
	}
	return drawn(tiles)
}

// nearOf returns the name of a kind of cluster without its round trip.
func nearOf(k stand.Kind) string {
	near, _, _ := strings.Cut(string(k), "+")
	return near
}

// kindsIn returns the kinds of cluster with hand-offs of a scenario, each name once.
func kindsIn(r *record, scenario string, name func(stand.Kind) string) []string {
	var kinds []string
	for _, f := range r.figures {
		if f.Scenario == scenario && f.Metric == metricHandOffP50 && !slices.Contains(kinds, name(f.Cluster)) {
			kinds = append(kinds, name(f.Cluster))
		}
	}
	return kinds
}

// newTile returns a plot with no lines. Y is logarithmic.
func newTile(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(3)
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Add(plotter.NewGrid())
	return p
}

// addLine draws one line of a contestant, with the spread as bars; nothing if there are no points.
func addLine(p *plot.Plot, c stand.Contestant, name string, dashed bool, points spreadPoints) error {
	if len(points.XYs) == 0 {
		return nil
	}
	line, dots, err := plotter.NewLinePoints(points.XYs)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(points)
	if err != nil {
		return err
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
	if dashed {
		line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		dots.Shape = draw.BoxGlyph{}
	}
	p.Add(line, dots, bars)
	p.Legend.Add(name, line, dots)
	return nil
}

// drawn draws tiles beside each other; it returns nil if there are none.
func drawn(tiles []*plot.Plot) ([]byte, error) {
	if tiles == nil {
		return nil, nil
	}
	low, high := tiles[0].Y.Min, tiles[0].Y.Max
	for _, p := range tiles {
		low, high = min(low, p.Y.Min), max(high, p.Y.Max)
	}
	for _, p := range tiles {
		// The same scale for all tiles, with room for the legend.
		p.Y.Min, p.Y.Max = low/1.5, high*5
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

// spreadPoints are medians with bars from the smallest to the greatest value.
type spreadPoints struct {
	plotter.XYs
	plotter.YErrors
}

// pointsOf returns the points of a metric in ms, with the X that a key has, for the wanted keys.
func pointsOf(r *record, metric string, at func(key) (x float64, wanted bool)) spreadPoints {
	var p spreadPoints
	for _, f := range r.figures {
		x, wanted := at(f.key)
		if !wanted || f.Metric != metric {
			continue
		}
		s := spreadOf(f.Rounds)
		p.XYs = append(p.XYs, plotter.XY{X: x, Y: s.Median / 1000})
		p.YErrors = append(p.YErrors, struct{ Low, High float64 }{(s.Median - s.Min) / 1000, (s.Max - s.Median) / 1000})
	}
	return p
}

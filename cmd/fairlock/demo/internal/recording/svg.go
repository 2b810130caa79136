package recording

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// The measures of the SVG, in pixels.
const (
	fontSize = 14
	advance  = 8.4 // the width of a character, by which pieces of a row are placed in any font
	leading  = 18
	inset    = 14
)

// SVG writes frames as an animated SVG. A viewer that does not play it shows the last frame.
func SVG(w io.Writer, title string, size Size, frames []Frame) error {
	width, height := float64(size.Columns)*advance+2*inset, size.Rows*leading+2*inset
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n%s%s</style>\n", escape(title), style, keyframes(frames, width))
	fmt.Fprintf(&b, `<rect class="back" width="%.0f" height="%d" rx="8"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<svg x="%d" y="%d" width="%.0f" height="%d">`+"\n", inset, inset, float64(size.Columns)*advance, size.Rows*leading)
	defs, film := strips(frames, width)
	fmt.Fprintf(&b, "<defs>\n%s</defs>\n", defs)
	fmt.Fprintf(&b, `<g class="film" transform="translate(%.0f)">`+"\n%s</g>\n</svg>\n</svg>\n", -width*float64(len(frames)-1), film)
	_, err := w.Write(b.Bytes())
	return err
}

// style is the CSS of all recordings. A reader who prefers reduced motion sees the last
// frame.
const style = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d5d9de;white-space:pre}
.back{fill:#14181d}.b{font-weight:bold}.f{fill:#868e98}
.c31{fill:#ff7b72}.c32{fill:#56d364}.c33{fill:#e3b341}
@media (prefers-reduced-motion:reduce){.film{animation:none!important}}
`

// keyframes returns the CSS that moves the animation by one frame at a time.
func keyframes(frames []Frame, width float64) string {
	var total, at time.Duration
	for _, f := range frames {
		total += f.For
	}
	var b strings.Builder
	fmt.Fprintf(&b, ".film{animation:play %.2fs step-end infinite}\n@keyframes play{\n", total.Seconds())
	for i, f := range frames {
		fmt.Fprintf(&b, "%.3f%%{transform:translate(%.0fpx)}\n", 100*at.Seconds()/total.Seconds(), width*float64(-i))
		at += f.For
	}
	b.WriteString("}\n")
	return b.String()
}

// strips returns the frames side by side. Each different row is written once, and used as
// often as it is shown.
func strips(frames []Frame, width float64) (defs, film string) {
	var d, f strings.Builder
	ids := map[string]int{"": -1}
	for i, frame := range frames {
		fmt.Fprintf(&f, `<g transform="translate(%.0f)">`, width*float64(i))
		for y, row := range frame.Picture {
			text := texts(row)
			id, known := ids[text]
			if !known {
				id = len(ids) - 1
				ids[text] = id
				fmt.Fprintf(&d, "<text id=\"r%d\">%s</text>\n", id, text)
			}
			if id >= 0 {
				fmt.Fprintf(&f, `<use href="#r%d" y="%d"/>`, id, y*leading+fontSize)
			}
		}
		f.WriteString("</g>\n")
	}
	return d.String(), f.String()
}

// texts returns the pieces of a row. Each has the same attributes and no wide gaps, so that
// columns are aligned even if the font is narrower.
func texts(row []cell) string {
	var b strings.Builder
	for i := 0; i < len(row); {
		if row[i].r == ' ' {
			i++
			continue
		}
		end := i
		for j := i; j < len(row) && row[j].attributes == row[i].attributes && j-end < 2; j++ {
			if row[j].r != ' ' {
				end = j + 1
			}
		}
		var text strings.Builder
		for _, c := range row[i:end] {
			text.WriteRune(c.r)
		}
		fmt.Fprintf(&b, `<tspan x="%.1f"%s>%s</tspan>`, float64(i)*advance, row[i].attributes.class(), escape(text.String()))
		i = end
	}
	return b.String()
}

func (a attributes) class() string {
	var all []string
	if a.bold {
		all = append(all, "b")
	}
	if a.faint {
		all = append(all, "f")
	}
	if a.colour != 0 {
		all = append(all, fmt.Sprintf("c%d", a.colour))
	}
	if len(all) == 0 {
		return ""
	}
	return ` class="` + strings.Join(all, " ") + `"`
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a Buffer takes everything
	return b.String()
}

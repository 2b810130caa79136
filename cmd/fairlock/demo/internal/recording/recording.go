// Package recording records what a program shows on a terminal, as an animated SVG.
// Browsers play it; other viewers show the last picture.
package recording

import (
	"time"
)

// Size is the size of a terminal, in characters.
type Size struct{ Columns, Rows int }

// Chunk is what a program wrote at one moment.
type Chunk struct {
	At   time.Duration // since the program began
	Text []byte
}

// Frame is a picture and how long it is shown.
type Frame struct {
	Picture Picture
	For     time.Duration
}

// Frames takes a picture of the screen at each interval, and one at the end, which is
// shown for the time hold. The first frame shows the typed command, for the time read.
func Frames(typed string, chunks []Chunk, size Size, every, read, hold time.Duration) []Frame {
	screen := newScreen(size)
	screen.write([]byte("\x1b[1m$ " + typed + "\x1b[0m\r\n"))
	frames := []Frame{{Picture: screen.picture(), For: read}}
	sample := func(d time.Duration) {
		p := screen.picture()
		last := &frames[len(frames)-1]
		if last.Picture.equal(p) {
			last.For += d
		} else {
			frames = append(frames, Frame{Picture: p, For: d})
		}
	}
	next := every
	for _, c := range chunks {
		for ; c.At > next; next += every {
			sample(every)
		}
		screen.write(c.Text)
	}
	sample(hold)
	return frames
}

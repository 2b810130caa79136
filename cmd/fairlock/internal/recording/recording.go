// Package recording makes a film of what a program shows on a terminal: an SVG that
// browsers play, and of which everything else shows the last picture.
package recording

import (
	"time"
)

// Size is that of a terminal, in characters.
type Size struct{ Columns, Rows int }

// Chunk is what a program wrote at one moment.
type Chunk struct {
	At   time.Duration // since it began
	Text []byte
}

// Frame is a picture and how long it is to be seen.
type Frame struct {
	Picture Picture
	For     time.Duration
}

// Frames looks at the screen every so often, while it is written to, and once more
// at the end, which is held. Before the program writes, what somebody has typed to
// start it is there for as long as it takes to read.
func Frames(typed string, chunks []Chunk, size Size, every, read, hold time.Duration) []Frame {
	screen := newScreen(size)
	screen.write([]byte("\x1b[1m$ " + typed + "\x1b[0m\r\n"))
	frames := []Frame{{Picture: screen.picture(), For: read}}
	look := func(d time.Duration) {
		p := screen.picture()
		if last := &frames[len(frames)-1]; last.Picture.equal(p) {
			last.For += d
		} else {
			frames = append(frames, Frame{Picture: p, For: d})
		}
	}
	next := every
	for _, c := range chunks {
		for ; c.At > next; next += every {
			look(every)
		}
		screen.write(c.Text)
	}
	look(hold)
	return frames
}

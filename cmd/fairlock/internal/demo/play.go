package demo

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/view"
)

// Pictures a second, and after how many of them the figures are worked out.
const (
	frame  = 100 * time.Millisecond
	figure = 10
)

// play plays the script, and shows it until it has ended. The terminal is as it
// was when play returns, also when that is by a panic.
func (d *director) play(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { // ends with the script, which ends with ctx
		err := errors.New("the script panicked")
		d.stage.guard(func() { err = d.script(ctx) })
		ended <- err
	}()
	if !d.live {
		return <-ended
	}
	screen := view.Open(d.opts.Out, d.paint)
	defer screen.Close()
	ticker := time.NewTicker(frame)
	defer ticker.Stop()
	for n := 0; ; n++ {
		if n%figure == 0 {
			d.stage.measure()
		}
		screen.Draw(d.stage.model())
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
		}
	}
}

// print prints lines below each other, cut if the terminal is narrow.
func (d *director) print(lines ...view.Line) {
	view.Print(d.opts.Out, d.paint, view.Width(d.opts.Out), lines...)
}

// noted prints a line of the log for those who see no picture.
func (d *director) noted(n view.Note) {
	if !d.live {
		d.print(view.Plainly(n))
	}
}

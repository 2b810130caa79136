package demo

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
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
		d.stage.guard(func() { err = d.acts(ctx) })
		ended <- err
	}()
	if !d.live {
		return <-ended
	}
	pictures := screen.Open(d.opts.Out, d.paint)
	defer pictures.Close()
	ticker := time.NewTicker(frame)
	defer ticker.Stop()
	for n := 0; ; n++ {
		if n%figure == 0 {
			d.stage.measure()
		}
		m := d.stage.model()
		pictures.Draw(func(w, h int) []screen.Line { return view.Frame(m, w, h) })
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
		}
	}
}

// print prints lines below each other, cut if the terminal is narrow.
func (d *director) print(lines ...screen.Line) {
	screen.Print(d.opts.Out, d.paint, screen.Width(d.opts.Out), lines...)
}

// noted prints a line of the log for those who see no picture.
func (d *director) noted(n view.Note) {
	if !d.live {
		d.print(view.LogLine(n))
	}
}

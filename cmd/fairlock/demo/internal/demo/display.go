package demo

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/view"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// frameInterval is the time between two frames; every measureEvery frames the figures are
// calculated.
const (
	frameInterval = 100 * time.Millisecond
	measureEvery  = 10
)

// runScript runs the script, and shows it until it has ended. When it returns, also by a
// panic, the terminal is as it was before.
func (d *demonstration) runScript(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { // ends with the script, which ends when ctx ends
		err := errors.New("the script panicked")
		d.state.guard(func() { err = d.script(ctx) })
		ended <- err
	}()
	if !d.live {
		return <-ended
	}
	pictures := screen.Open(d.opts.Out, d.paint)
	defer pictures.Close()
	ticker := time.NewTicker(frameInterval)
	defer ticker.Stop()
	for n := 0; ; n++ {
		if n%measureEvery == 0 {
			d.state.measure()
		}
		m := d.state.model()
		pictures.Draw(func(w, h int) []screen.Line { return view.Frame(m, w, h) })
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
		}
	}
}

// print prints lines, cut to the width of the terminal.
func (d *demonstration) print(lines ...screen.Line) {
	screen.Print(d.opts.Out, d.paint, screen.Width(d.opts.Out), lines...)
}

// printNote prints a line of the log, unless the picture is shown.
func (d *demonstration) printNote(n view.Note) {
	if !d.live {
		d.print(view.LogLine(n))
	}
}

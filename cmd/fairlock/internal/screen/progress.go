package screen

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Progress is a line on a terminal that shows what a command does. It appears after one
// second, is repainted once a second, and is erased by Clear and Close. The zero Progress
// writes nothing.
type Progress struct {
	mu      sync.Mutex
	w       io.Writer
	width   func() int // of the terminal, 0 if it is unknown
	text    string
	began   time.Time
	painted bool
	stop    chan struct{}
	stopped sync.WaitGroup
}

// NewProgress returns a Progress that writes to w if w is a terminal. Close ends it.
func NewProgress(w io.Writer, text string) *Progress {
	f, ok := w.(*os.File)
	if !ok || !IsTerminal(f) || os.Getenv("TERM") == "dumb" {
		return &Progress{}
	}
	return startProgress(w, func() int { return Width(f) }, text)
}

func startProgress(w io.Writer, width func() int, text string) *Progress {
	p := &Progress{w: w, width: width, text: text, began: time.Now(), stop: make(chan struct{})}
	p.stopped.Go(func() { // ends with stop
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-p.stop:
				return
			case now := <-t.C:
				p.paint(now)
			}
		}
	})
	return p
}

// SetText changes the text.
func (p *Progress) SetText(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

func (p *Progress) paint(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.painted = true
	text, took := []rune(Printable(p.text)), fmt.Sprintf(", %s", now.Sub(p.began).Truncate(time.Second))
	width := p.width()
	if width > 0 { // a line that wraps could not be erased
		text = text[:min(len(text), max(width-1-len(took), 0))]
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s%s", string(text), took)
}

// Clear erases the line, so that other text can be written.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.painted {
		p.painted = false
		_, _ = io.WriteString(p.w, "\r\x1b[K") // a terminal that is gone shows nothing
	}
}

// Close erases the line for good.
func (p *Progress) Close() {
	if p.stop != nil {
		close(p.stop)
		p.stopped.Wait()
		p.stop = nil
	}
	p.Clear()
}

// Before returns a writer that erases the line before it writes to w.
func (p *Progress) Before(w io.Writer) io.Writer { return &before{p, w} }

type before struct {
	p *Progress
	w io.Writer
}

func (b *before) Write(text []byte) (int, error) {
	b.p.Clear()
	return b.w.Write(text)
}

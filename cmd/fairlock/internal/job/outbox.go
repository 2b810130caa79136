package job

import (
	"bytes"
	"errors"
	"io"
)

// maxUnwritten is how many messages an outbox keeps while their reader does not read.
const maxUnwritten = 64

// errUnread is the error of Write for a message that an outbox does not keep.
var errUnread = errors.New("the reader does not read")

// outbox passes messages to a goroutine, which writes them. So no caller waits for a
// reader that has stopped reading, such as a terminal after ^S: the callers are the
// supervisor of a command, and hooks of the session.
type outbox struct {
	w      io.Writer
	queued chan message
}

// message is a text to write, or a channel to close when all before it is written.
type message struct {
	text    []byte
	written chan<- struct{}
}

// newOutbox returns an outbox for w. Its goroutine ends after close, when the last write
// has returned.
func newOutbox(w io.Writer) *outbox {
	o := &outbox{w: w, queued: make(chan message, maxUnwritten)}
	go o.run()
	return o
}

func (o *outbox) run() {
	for m := range o.queued {
		if m.written != nil {
			close(m.written)
			continue
		}
		_, _ = o.w.Write(m.text) // see reporter
	}
}

// Write implements [io.Writer]. It never blocks.
func (o *outbox) Write(p []byte) (int, error) {
	select {
	case o.queued <- message{text: bytes.Clone(p)}:
		return len(p), nil
	default:
		return 0, errUnread
	}
}

// flush blocks until all that was passed before is written, or end is closed.
func (o *outbox) flush(end <-chan struct{}) {
	written := make(chan struct{})
	select {
	case o.queued <- message{written: written}:
	case <-end:
		return
	}
	select {
	case <-written:
	case <-end:
	}
}

// close ends the outbox. No other call may follow.
func (o *outbox) close() { close(o.queued) }

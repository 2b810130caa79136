package testnet

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkSize  = 32 << 10
	queueLimit = 8 << 20
)

// pipe is one direction of a connection: a queue that a reader fills and that a
// writer empties when the faults in effect allow it.
type pipe struct {
	c   *conn
	dir int // 0 is requests, 1 is replies

	lost     bool          // something was dropped; only the writer uses it
	wake     chan struct{} // to the writer: the queue has grown
	room     chan struct{} // to the reader: the queue has shrunk
	finished chan struct{} // closed when the writer has ended

	mu    sync.Mutex
	queue []chunk
	size  int // bytes in queue
}

// chunk is the result of one read: bytes, or the end of the stream.
type chunk struct {
	data []byte
	end  error // io.EOF or why the read failed
	due  time.Time
}

func newPipe(c *conn, dir int) *pipe {
	return &pipe{
		c: c, dir: dir,
		wake:     make(chan struct{}, 1),
		room:     make(chan struct{}, 1),
		finished: make(chan struct{}),
	}
}

// read fills the queue until src ends.
func (p *pipe) read(src *net.TCPConn) {
	for {
		buf := make([]byte, chunkSize)
		n, err := src.Read(buf)
		due := time.Now().Add(p.c.p.delay(p.dir))
		if n > 0 && !p.push(chunk{data: buf[:n], due: due}) {
			return
		}
		if err != nil {
			p.push(chunk{end: err, due: due})
			return
		}
	}
}

// push appends to the queue and waits for room in it afterwards, so that even
// one large chunk fits. It reports false when the connection is over.
func (p *pipe) push(ch chunk) bool {
	p.mu.Lock()
	p.queue = append(p.queue, ch)
	p.size += len(ch.data)
	p.mu.Unlock()
	p.c.p.stats.flow[p.dir].waiting.Add(int64(len(ch.data)))
	signal(p.wake)

	for p.full() {
		select {
		case <-p.room:
		case <-p.c.done:
			return false
		}
	}
	return true
}

func (p *pipe) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size > queueLimit
}

// passable waits until the direction flows. It reports false when the connection
// is over or has lost bytes.
func (p *pipe) passable() bool {
	for {
		m, changed := p.c.p.mode(p.c.label, p.dir)
		switch m {
		case flow:
			return !p.lost
		case drop:
			p.drop()
		case hold:
		}
		if !p.wait(changed, nil) {
			return false
		}
	}
}

// write passes the queue on to dst until the stream ends.
func (p *pipe) write(dst *net.TCPConn) {
	defer close(p.finished)
	for {
		// Read the queue first, then the faults. Otherwise bytes that came after
		// Hold returned could be passed on under the state before it.
		head, ok := p.peek()
		m, changed := p.c.p.mode(p.c.label, p.dir)
		var due <-chan time.Time
		switch {
		case m == drop:
			p.drop()
		case m == hold:
		case p.lost: // no reader can use a stream with a gap
			p.c.reset()
			return
		case ok:
			wait := time.Until(head.due)
			if wait <= 0 {
				p.pop()
				if !p.deliver(head, dst) {
					return
				}
				continue
			}
			due = time.After(wait)
		}
		if !p.wait(changed, due) {
			return
		}
	}
}

// deliver passes on one chunk, or the end of the stream as the reader met it. It
// reports false when nothing can follow.
func (p *pipe) deliver(ch chunk, dst *net.TCPConn) bool {
	switch {
	case errors.Is(ch.end, io.EOF):
		_ = dst.CloseWrite()
		return false
	case ch.end != nil:
		p.c.reset()
		return false
	}
	if _, err := dst.Write(ch.data); err != nil {
		p.c.reset()
		return false
	}
	p.c.p.stats.flow[p.dir].passed.Add(int64(len(ch.data)))
	p.c.p.stats.flow[p.dir].pieces.Add(1)
	return true
}

// wait returns when there may be something to do, and false when the connection
// is over.
func (p *pipe) wait(changed <-chan struct{}, due <-chan time.Time) bool {
	select {
	case <-changed:
	case <-due:
	case <-p.wake:
	case <-p.c.done:
		return false
	}
	return true
}

func (p *pipe) peek() (chunk, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return chunk{}, false
	}
	return p.queue[0], true
}

// pop removes the chunk that peek returned: no other goroutine removes chunks.
func (p *pipe) pop() {
	p.mu.Lock()
	n := len(p.queue[0].data)
	p.queue[0] = chunk{}
	p.queue = p.queue[1:]
	p.size -= n
	p.mu.Unlock()
	p.c.p.stats.flow[p.dir].waiting.Add(-int64(n))
	signal(p.room)
}

// drop discards the queue. If it contains an end of the stream, that is lost
// too, which makes the connection as useless as lost bytes do.
func (p *pipe) drop() {
	n, something := p.empty()
	p.lost = p.lost || something
	p.c.p.stats.flow[p.dir].dropped.Add(int64(n))
}

// empty empties the queue and returns its size.
func (p *pipe) empty() (size int, something bool) {
	p.mu.Lock()
	size, something = p.size, len(p.queue) > 0
	p.queue, p.size = nil, 0
	p.mu.Unlock()
	p.c.p.stats.flow[p.dir].waiting.Add(-int64(size))
	signal(p.room)
	return size, something
}

// signal leaves one signal in a channel of capacity one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

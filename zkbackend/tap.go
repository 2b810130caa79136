package zkbackend

import (
	"bufio"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// tap stands between the client library and the socket. The library is given
// exactly one connection in its life, on which the handshake has been done
// already; it never reconnects, because what it does then cannot be controlled
// from outside: it goes on with another session if the old one has expired,
// sends what was queued for the old one there, takes up to ten times its
// timeout for a silent server, may block for good when it repeats a login, and
// has a data race between the first reply and its SetWatches.
//
// When the connection is lost, the library is brought to its end in the one way
// that leaves no goroutine of its waiting: writes go on to succeed, and reads
// block, until it has written its last request.
type tap struct {
	net.Conn
	in      *bufio.Reader
	lost    func(error)       // tells the link, once
	replied func(replyHeader) // hears of every reply

	mu     sync.Mutex
	asked  []int32   // requests that were sent and not answered, in order
	active time.Time // when something came back last, or began to be due
	orders []*order  // that somebody wants to know of

	logins chan struct{} // one for each that was sent

	greeting []byte // the answer to the handshake, still to be read
	parser   replies
	greeted  bool // the library has written its own handshake

	broken   chan struct{} // the socket is of no use any more
	quiet    chan struct{} // ... and the library waits in Read, with nothing half done
	farewell chan struct{} // ... and it has written its last request
	last     atomic.Int32  // the number of that request; 0 before
	breaking sync.Once
	quieting sync.Once
	parting  sync.Once
}

func newTap(c net.Conn, greeting []byte, logins int, lost func(error), replied func(replyHeader)) *tap {
	return &tap{
		logins: make(chan struct{}, logins),
		Conn:   c, in: bufio.NewReaderSize(c, 16<<10), lost: lost, replied: replied, greeting: greeting,
		broken: make(chan struct{}), quiet: make(chan struct{}), farewell: make(chan struct{}),
	}
}

// cut makes the socket useless. Nothing is read from it or written to it
// afterwards.
func (t *tap) cut() {
	t.breaking.Do(func() {
		close(t.broken)
		_ = t.Conn.Close()
	})
}

func (t *tap) isBroken() bool {
	select {
	case <-t.broken:
		return true
	default:
		return false
	}
}

// Read implements net.Conn for the library's receiving goroutine.
func (t *tap) Read(p []byte) (int, error) {
	if len(t.greeting) > 0 {
		n := copy(p, t.greeting)
		t.greeting = t.greeting[n:]
		return n, nil
	}
	if !t.isBroken() {
		n, err := t.in.Read(p)
		if n > 0 && !t.isBroken() {
			t.parser.pass(p[:n], t.replied)
			return n, nil
		}
		if err != nil {
			t.lost(err)
		}
	}
	if !t.isBroken() {
		return 0, nil
	}
	t.quieting.Do(func() { close(t.quiet) })
	<-t.farewell
	return 0, io.EOF
}

// Write implements net.Conn for the library's sending goroutine, which writes
// one packet at a time.
func (t *tap) Write(packet []byte) (int, error) {
	if !t.greeted { // the handshake, which was done without it
		t.greeted = true
		return len(packet), nil
	}
	xid, op, ok := requestHeader(packet)
	last := ok && op == opClose
	if last {
		t.last.Store(xid)
	}
	if ok && xid >= 0 {
		t.asks(xid, op, packet)
	}
	if ok && op == opAuth {
		defer func() { t.logins <- struct{}{} }() // has room for all
	}
	if !t.isBroken() {
		if _, err := t.Conn.Write(watching(packet)); err != nil {
			t.lost(err)
		}
	}
	if last {
		t.parting.Do(func() { close(t.farewell) })
	}
	return len(packet), nil
}

// Close implements net.Conn. The library calls it when its receiving goroutine
// has ended, or was never begun: the other one never sees an error that would
// make it call first.
func (t *tap) Close() error {
	t.cut()
	t.quieting.Do(func() { close(t.quiet) })
	t.parting.Do(func() { close(t.farewell) })
	return nil
}

// asks notes a request that is about to be sent.
func (t *tap) asks(xid, op int32, packet []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaves(packet, op)
	if len(t.asked) == 0 {
		t.active = time.Now()
	}
	t.asked = append(t.asked, xid)
}

// answered notes a reply. It says whether it was due: a server answers the
// requests of a connection in order.
func (t *tap) answered(xid int32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active = time.Now()
	if len(t.asked) == 0 || t.asked[0] != xid {
		return false
	}
	t.asked = t.asked[1:]
	return true
}

// silence is for how long nothing has come back while a reply was due. Requests
// are answered in order, so one that comes late behind many others is no sign of
// trouble.
func (t *tap) silence() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.asked) == 0 {
		return 0
	}
	return time.Since(t.active)
}

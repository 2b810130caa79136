package conn

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// This file has what the package relies on in github.com/go-zookeeper/zk that the library does not
// promise. Each claim is a subtest that fails with a sentence if another version behaves differently.

// probe is a net.Conn for the library that records what the library does with it.
type probe struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte // as they came
	reads  []int    // how many bytes were asked for, each time the library begins a new packet
	notes  []string // what happened, in order

	in   chan []byte // packets to be read
	rest []byte
	over chan struct{}
	once sync.Once
}

func newProbe() *probe { return &probe{in: make(chan []byte, 100), over: make(chan struct{})} }

func (p *probe) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, what)
}

func (p *probe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = append(p.writes, bytes.Clone(b))
	return len(b), nil
}

func (p *probe) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		p.note("next")
		p.mu.Lock()
		p.reads = append(p.reads, len(b))
		p.mu.Unlock()
		select {
		case p.rest = <-p.in:
		case <-p.over:
			return 0, net.ErrClosed
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *probe) Close() error {
	p.once.Do(func() { close(p.over) })
	return nil
}

func (p *probe) SetReadDeadline(time.Time) error  { return nil }
func (p *probe) SetWriteDeadline(time.Time) error { return nil }

// sent returns the packets after the handshake.
func (p *probe) sent() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []request
	for _, w := range p.writes[1:] {
		all = append(all, w)
	}
	return all
}

// onProbe runs f with the library on a probe, and then ends the library.
func onProbe(t *testing.T, f func(t *testing.T, lib *zk.Conn, p *probe)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		dials := 0
		lib, events, err := zk.Connect([]string{"a:1"}, 30*time.Second,
			zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) {
				dials++
				return p, nil
			}),
			zk.WithHostProvider(&onlyHost{server: "a:1"}), zk.WithLogger(silent{}), zk.WithLogInfo(false),
			zk.WithEventCallback(func(ev zk.Event) {
				if ev.Path != "" {
					p.note("event " + ev.Path)
				}
			}), zk.WithMaxConnBufferSize(4+longestRequest))
		require.NoError(t, err)
		p.in <- packet(0, 30000, int64(7), "0123456789abcdef", byte(0))
		synctest.Wait()

		f(t, lib, p)

		began := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			lib.Close()
		}()
		synctest.Wait()
		if sent := p.sent(); len(sent) > 0 && sent[len(sent)-1].op() == opClose {
			p.in <- packet(sent[len(sent)-1].xid(), int64(1), 0)
		}
		<-ended
		for range events {
			continue
		}
		assert.Equal(t, 1, dials, "the library made another connection")
		assert.Equal(t, began, time.Now(), "Close does not return when the request that ends the session was answered")
	})
}

// get asks for a node in the background.
func get(lib *zk.Conn, path string, then func(error)) {
	go func() {
		_, _, err := lib.Get(path)
		then(err)
	}()
	synctest.Wait()
}

func TestWhatTheLibraryDoesNotPromise(t *testing.T) {
	t.Run("the first write is the handshake, and each other one is one packet", func(t *testing.T) {
		onProbe(t, func(t *testing.T, lib *zk.Conn, p *probe) {
			for range 3 {
				get(lib, "/a", func(error) {})
			}
			time.Sleep(11 * time.Second) // a ping
			synctest.Wait()
			assert.Equal(t, handshakeRequest(identity{}, 30*time.Second, 0), p.writes[0])
			sent := p.sent()
			require.Len(t, sent, 4)
			for _, r := range sent {
				assert.EqualValues(t, len(r)-4, binary.BigEndian.Uint32(r), "a write is not a packet")
			}
			assert.EqualValues(t, -2, sent[3].xid(), "a ping has another number")
			for range 3 {
				p.in <- answerTo(sent[0], 1)
			}
		})
	})
	t.Run("the last byte of a read asks for a watch", func(t *testing.T) {
		onProbe(t, func(t *testing.T, lib *zk.Conn, p *probe) {
			for _, ask := range []func(){
				func() { _, _, _ = lib.Get("/a") },
				func() { _, _, _, _ = lib.GetW("/a") },
				func() { _, _, _ = lib.Children("/a") },
				func() { _, _, _, _ = lib.ChildrenW("/a") },
			} {
				go ask()
				synctest.Wait()
			}
			sent := p.sent()
			require.Len(t, sent, 4)
			for i, plain := range []request{sent[0], sent[2]} {
				watching := sent[2*i+1]
				binary.BigEndian.PutUint32(plain[4:], uint32(watching.xid()))
				setWatch(plain)
				assert.Equal(t, watching, plain)
			}
			p.mu.Lock()
			p.writes = p.writes[:1]
			p.mu.Unlock()
		})
	})
	t.Run("the next packet is asked for when everything was done with the last one", func(t *testing.T) {
		onProbe(t, func(t *testing.T, lib *zk.Conn, p *probe) {
			var answered bool
			get(lib, "/a", func(error) { answered = true })
			p.in <- bytes.Join([][]byte{event(3, "/x"), answerTo(p.sent()[0], 1), event(3, "/y")}, nil)
			synctest.Wait()
			assert.True(t, answered)
			assert.Subset(t, p.notes, []string{"event /x", "event /y"})
			assert.Equal(t, "next", p.notes[len(p.notes)-1])
		})
		onProbe(t, func(t *testing.T, lib *zk.Conn, p *probe) {
			p.in <- event(3, "/x")
			p.in <- event(3, "/y")
			synctest.Wait()
			n := len(p.notes)
			assert.Equal(t, []string{"next", "event /x", "next", "event /y", "next"}, p.notes[n-5:])
			assert.Equal(t, 4, p.reads[len(p.reads)-1], "a packet's length is not asked for first")
		})
	})
	t.Run("an answer is with its request before the next packet is asked for", func(t *testing.T) {
		onProbe(t, func(t *testing.T, lib *zk.Conn, p *probe) {
			for range 200 {
				answers := make(chan error, 1)
				go func() { // it has the answer without another step of the receiving goroutine
					_, _, err := lib.Get("/a")
					answers <- err
				}()
				synctest.Wait()
				sent := p.sent()
				p.in <- answerTo(sent[len(sent)-1], 1)
				require.NoError(t, <-answers)
			}
		})
	})
	t.Run("after the end a request has one of two errors", func(t *testing.T) {
		onProbe(t, func(t *testing.T, lib *zk.Conn, p *probe) {
			var errs []error
			get(lib, "/a", func(err error) { errs = append(errs, err) })
			go lib.Close()
			synctest.Wait()
			sent := p.sent()
			assert.EqualValues(t, opClose, sent[len(sent)-1].op())
			p.in <- packet(sent[len(sent)-1].xid(), int64(1), 0)
			synctest.Wait()
			_, _, err := lib.Get("/b")
			for _, err := range append(errs, err) {
				assert.Contains(t, []error{zk.ErrConnectionClosed, zk.ErrClosing}, err)
			}
			assert.Len(t, errs, 1)
			assert.True(t, isClosed(p.over), "the receiving goroutine does not end with the answer to the last request")
		})
	})
	t.Run("a request that is too long is refused before it is sent", func(t *testing.T) {
		onProbe(t, func(t *testing.T, lib *zk.Conn, p *probe) {
			set := func(n int) error {
				_, err := lib.Multi(&zk.SetDataRequest{Path: "/", Data: make([]byte, n), Version: -1})
				return err
			}
			const around = 8 + 9 + 4 + 1 + 4 + 4 + 9 // of header, op, path, length, version, and the end
			require.ErrorIs(t, set(longestRequest-around+1), zk.ErrShortBuffer)
			assert.Empty(t, p.sent())
			go func() { _ = set(longestRequest - around) }()
			synctest.Wait()
			require.Len(t, p.sent(), 1)
			assert.Len(t, p.sent()[0], 4+longestRequest)
		})
	})
	t.Run("codes without a value are in the text", func(t *testing.T) {
		onProbe(t, func(t *testing.T, lib *zk.Conn, p *probe) {
			var got error
			get(lib, "/a", func(err error) { got = err })
			p.in <- refusal(p.sent()[0], -125)
			synctest.Wait()
			require.EqualError(t, got, "unknown error: -125")
			go func() { _, got = lib.Multi(&zk.DeleteRequest{Path: "/a"}, &zk.DeleteRequest{Path: "/b"}) }()
			synctest.Wait()
			p.in <- packet(p.sent()[1].xid(), int64(1), 0, -1, byte(0), 0, 0, -1, byte(0), -125, -125, -1, byte(1), -1)
			synctest.Wait()
			require.EqualError(t, got, "unknown error: -125")
		})
	})
}

package zookeeper

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// late is how much later than its context a call may return on a busy machine.
const late = 300 * time.Millisecond

// inTime makes a call with a short context and returns its error. The call must return
// soon after this process has noticed the end of the context.
func inTime(t *testing.T, what string, d time.Duration, call func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	end := make(chan driver.Instant, 1)
	context.AfterFunc(ctx, func() { end <- recipetest.Now() })
	watch, began := metronome.Begin(t), recipetest.Now()
	err := call(ctx)
	returned := recipetest.Now()
	after := returned.Sub(recipetest.Wait(t, end, "the end of a context"))
	assert.Less(t, after-watch.Stalled(), late, what)
	require.Error(t, err, what)
	t.Logf("%s: after %v: %v", what, returned.Sub(began).Round(time.Millisecond), err)
	return err
}

// stoppedServer: the server keeps its connections and answers nothing. The client library
// has no contexts, and waits for up to 6.7 session timeouts.
func stoppedServer(t *testing.T) {
	const short = 200 * time.Millisecond
	e := zktest.New(t, nil)
	addr := e.Member(0).Endpoint()
	p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, addr)
	h := p.Lock(t, "x")
	m, other := mutex.New(p.Session, "x"), mutex.New(p.Session, "y")
	require.NoError(t, e.Member(0).Pause())
	for what, call := range map[string]func(context.Context) error{
		"Lock":    func(ctx context.Context) error { return second(other.Lock(ctx)) },
		"TryLock": func(ctx context.Context) error { return second(m.TryLock(ctx)) },
		"Queue":   func(ctx context.Context) error { return second(m.Queue(ctx)) },
		"Names":   func(ctx context.Context) error { return second(p.Names(ctx, "")) },
	} {
		assert.ErrorIs(t, inTime(t, what, short, call), context.DeadlineExceeded, what)
	}
	err := inTime(t, "Open", 3*short, func(ctx context.Context) error {
		return second(zkbackend.Open(ctx, []string{addr}, nil))
	})
	assert.ErrorIs(t, err, session.ErrUnavailable)
	assert.ErrorContains(t, err, addr)
	watch := metronome.Begin(t)
	assert.ErrorIs(t, h.Unlock(), session.ErrReleasePending)
	assert.Less(t, watch.Passed(), 2*time.Second)
	require.NoError(t, e.Member(0).Resume())

	resumed := recipetest.Now()
	recipetest.Unlock(t, p.Lock(t, "x"))
	recipetest.Unlock(t, p.Lock(t, "y"))
	t.Logf("locks again %v after the server went on", recipetest.Now().Sub(resumed))
	conn := e.Client(t)
	awaitEntries(t, conn, "/fairlock/x", 0)
	awaitEntries(t, conn, "/fairlock/y", 0)
	p.Kept(t)
}

// impostor listens where a server should, and answers every handshake with the same bytes.
// Then it may close the connection.
type impostor struct {
	addr string
	stop func()
}

func newImpostor(t *testing.T, answer []byte, hangUp bool) *impostor {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var open sync.Map
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(c, true)
			serving.Go(func() {
				defer c.Close()
				head := make([]byte, 4)
				if _, err := io.ReadFull(c, head); err != nil {
					return
				}
				if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head))); err != nil {
					return
				}
				if _, err := c.Write(answer); err != nil || hangUp {
					return
				}
				_, _ = io.Copy(io.Discard, c)
			})
		}
	})
	i := &impostor{addr: l.Addr().String(), stop: sync.OnceFunc(func() {
		_ = l.Close()
		open.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true }) //nolint:forcetypeassert // see Store
		serving.Wait()
	})}
	t.Cleanup(i.stop)
	return i
}

// impostors are programs that are no servers, and networks that end in the middle of a
// packet. No call waits for them longer than its timeout.
func impostors(t *testing.T) {
	handshake := make([]byte, 41)
	binary.BigEndian.PutUint32(handshake, 37)
	const notOurs = "not ZooKeeper's"
	fakes := map[string]struct {
		answer []byte
		hangUp bool
		text   string
		ends   bool // a server answers so, too, if a session has ended
	}{
		"silence":          {text: "no answer from"},
		"four bytes":       {answer: handshake[:4], text: "no answer from"},
		"half a handshake": {answer: handshake[:20], text: "no answer from"},
		"part and the end": {answer: handshake[:20], hangUp: true, text: "EOF"},
		"the end":          {hangUp: true, text: "EOF"},
		"endless packet":   {answer: []byte{0x7f, 0xff, 0xff, 0xff}, text: notOurs},
		"wrong protocol":   {answer: []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), hangUp: true, text: notOurs},
		"no session":       {answer: handshake, text: notOurs, ends: true},
	}
	e, root := shared(t)
	var running sync.WaitGroup
	for name, f := range fakes {
		running.Go(func() {
			t.Run(name, func(t *testing.T) {
				fake := newImpostor(t, f.answer, f.hangUp)
				opensInTime(t, fake.addr, f.text)
				if !f.ends {
					takesThePlace(t, e, root+name[:1], fake.addr)
				}
			})
		})
	}
	running.Wait()
}

func opensInTime(t *testing.T, addr, text string) {
	err := inTime(t, "Open", 1500*time.Millisecond, func(ctx context.Context) error {
		return second(zkbackend.Open(ctx, []string{addr}, nil))
	})
	assert.ErrorIs(t, err, session.ErrUnavailable)
	assert.ErrorContains(t, err, addr)
	assert.ErrorContains(t, err, text)
}

// takesThePlace replaces a server by an impostor while a session is open, and puts the
// server back.
func takesThePlace(t *testing.T, e *zktest.Ensemble, root, fake string) {
	var to atomic.Value
	to.Store("")
	proxy := proxyOf(t, e, 0)
	p := newClient(t, root, 8*time.Second)
	p.opts.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if a, _ := to.Load().(string); a != "" {
			addr = a
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	p.open(t, proxy.Addr())
	h := p.Lock(t, "held")
	to.Store(fake)
	proxy.Reset()
	err := inTime(t, "Lock", 200*time.Millisecond, func(ctx context.Context) error {
		return second(mutex.New(p.Session, "x").Lock(ctx))
	})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	to.Store("")
	recipetest.Unlock(t, p.Lock(t, "x"))
	recipetest.Unlock(t, h)
	p.Kept(t)
}

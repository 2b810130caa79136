package testnet_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/testnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// link is one connection through a proxy: the client's side and the server's
// side.
type link struct {
	proxy          *testnet.Proxy
	client, server *net.TCPConn
}

func connect(t *testing.T, opts *testnet.Options) link {
	t.Helper()
	l, accepted := listen(t)
	proxy := start(t, l.Addr().String(), opts)
	client := dial(t, proxy)
	return link{proxy, client, receive(t, accepted)}
}

func start(t *testing.T, target string, opts *testnet.Options) *testnet.Proxy {
	t.Helper()
	proxy, err := testnet.New(target, opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	return proxy
}

func dial(t *testing.T, proxy *testnet.Proxy) *net.TCPConn {
	t.Helper()
	nc, err := net.Dial("tcp", proxy.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(hang.Guard)))
	return nc.(*net.TCPConn)
}

// listen accepts connections until the test ends.
func listen(t *testing.T) (net.Listener, <-chan *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	accepted := make(chan *net.TCPConn, 10)
	go func() {
		defer close(accepted)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			_ = nc.SetDeadline(time.Now().Add(hang.Guard))
			accepted <- nc.(*net.TCPConn)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		for nc := range accepted {
			_ = nc.Close()
		}
	})
	return l, accepted
}

func receive(t *testing.T, accepted <-chan *net.TCPConn) *net.TCPConn {
	t.Helper()
	nc := hang.Receive(t, accepted, "no connection arrived")
	t.Cleanup(func() { _ = nc.Close() })
	return nc
}

func send(t *testing.T, nc net.Conn, s string) {
	t.Helper()
	_, err := nc.Write([]byte(s))
	require.NoError(t, err)
}

func expect(t *testing.T, nc net.Conn, s string) {
	t.Helper()
	buf := make([]byte, len(s))
	_, err := io.ReadFull(nc, buf)
	require.NoError(t, err)
	require.Equal(t, s, string(buf))
}

// firstError returns the first error that a client of the proxy gets: a reset
// right after the accept may come before dialing has returned.
func firstError(proxy *testnet.Proxy) error {
	nc, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		return err
	}
	defer nc.Close()
	_, err = nc.Read(make([]byte, 1))
	return err
}

// waiting waits until the proxy holds n bytes.
func (l link) waiting(t *testing.T, flow func(testnet.Stats) testnet.Flow, n int64) {
	t.Helper()
	hang.Until(t, func() bool { return flow(l.proxy.Stats()).Waiting == n }, "the proxy keeps what was sent")
}

func up(s testnet.Stats) testnet.Flow   { return s.Requests }
func down(s testnet.Stats) testnet.Flow { return s.Replies }

func TestHeldBytesArriveInOrder(t *testing.T) {
	l := connect(t, nil)
	send(t, l.client, "a")
	expect(t, l.server, "a")

	l.proxy.Hold(fault.Requests)
	send(t, l.client, "b")
	l.waiting(t, up, 1)
	send(t, l.client, "c")
	l.waiting(t, up, 2)
	assert.EqualValues(t, 1, l.proxy.Stats().Requests.Passed)
	assert.EqualValues(t, 1, l.proxy.Stats().Requests.Pieces)
	l.proxy.Heal(fault.Requests)

	expect(t, l.server, "bc")
	assert.Zero(t, l.proxy.Stats().Requests.Waiting)
}

func TestHoldInOneDirectionLeavesTheOther(t *testing.T) {
	l := connect(t, nil)
	l.proxy.Hold(fault.Replies)

	send(t, l.client, "request")
	expect(t, l.server, "request")
	send(t, l.server, "reply")
	l.waiting(t, down, 5)

	l.proxy.Heal(fault.Both)
	expect(t, l.client, "reply")
}

func TestHoldHidesTheEndOfTheStream(t *testing.T) {
	l := connect(t, nil)
	l.proxy.Hold(fault.Both)
	send(t, l.client, "last words")
	require.NoError(t, l.client.CloseWrite())
	l.waiting(t, up, 10)

	require.NoError(t, l.server.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := l.server.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "nothing may come, not even an end")
}

func TestConnectionMadeWhileHeldIsServedAfterHeal(t *testing.T) {
	listener, accepted := listen(t)
	proxy := start(t, listener.Addr().String(), nil)
	proxy.Hold(fault.Requests)
	client := dial(t, proxy)
	send(t, client, "hello")
	hang.Until(t, func() bool { return proxy.Stats().Requests.Waiting == 5 }, "the proxy keeps what was sent")
	assert.Empty(t, accepted, "the server must not see the connection")

	proxy.Heal(fault.Requests)

	expect(t, receive(t, accepted), "hello")
}

func TestDroppedBytesBreakTheConnectionAtHeal(t *testing.T) {
	l := connect(t, nil)
	l.proxy.Drop(fault.Requests)
	send(t, l.client, "lost")
	hang.Until(t, func() bool { return l.proxy.Stats().Requests.Dropped == 4 }, "the proxy drops what was sent")
	send(t, l.server, "still passes")
	expect(t, l.client, "still passes")

	l.proxy.Heal(fault.Requests)

	_, err := l.client.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = l.server.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestDropLeavesAnIdleConnectionWhole(t *testing.T) {
	l := connect(t, nil)
	l.proxy.Drop(fault.Both)
	l.proxy.Heal(fault.Both)

	send(t, l.client, "a")
	expect(t, l.server, "a")
	send(t, l.server, "b")
	expect(t, l.client, "b")
}

func TestResetReachesBothSides(t *testing.T) {
	l := connect(t, nil)
	l.proxy.Reset()

	_, err := l.client.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = l.server.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestResetOfOneSideReachesTheOther(t *testing.T) {
	l := connect(t, nil)
	require.NoError(t, l.server.SetLinger(0))
	require.NoError(t, l.server.Close())

	_, err := l.client.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestHalfClosePasses(t *testing.T) {
	l := connect(t, nil)
	send(t, l.client, "question")
	require.NoError(t, l.client.CloseWrite())
	question, err := io.ReadAll(l.server)
	require.NoError(t, err)
	send(t, l.server, "answer")
	require.NoError(t, l.server.Close())

	answer, err := io.ReadAll(l.client)
	require.NoError(t, err)
	assert.Equal(t, "question", string(question))
	assert.Equal(t, "answer", string(answer))
	hang.Until(t, func() bool { return l.proxy.Stats().Open == 0 }, "a connection stays open")
}

// A delay that slept for every chunk would need 256 × 200 ms here, and connections last for
// less.
func TestDelayKeepsThroughput(t *testing.T) {
	const delay = 200 * time.Millisecond
	l := connect(t, nil)
	l.proxy.Delay(fault.Requests, delay)
	data := bytes.Repeat([]byte("0123456789abcdef"), 256*32<<10/16)
	begin := time.Now()
	go func() {
		_, _ = l.client.Write(data)
		_ = l.client.CloseWrite()
	}()

	got, err := io.ReadAll(l.server)
	took := time.Since(begin)

	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got), "bytes changed or lost")
	assert.GreaterOrEqual(t, took, delay)
}

func TestShorterDelayDoesNotReorder(t *testing.T) {
	l := connect(t, nil)
	l.proxy.Delay(fault.Requests, 100*time.Millisecond)
	send(t, l.client, "a")
	l.waiting(t, up, 1)
	l.proxy.Delay(fault.Requests, 0)
	send(t, l.client, "b")

	expect(t, l.server, "ab")
}

func TestRefusedConnectionIsReset(t *testing.T) {
	l := connect(t, nil)
	l.proxy.Refuse(true)
	require.ErrorIs(t, firstError(l.proxy), syscall.ECONNRESET)
	send(t, l.client, "the old one lives")
	expect(t, l.server, "the old one lives")

	l.proxy.Refuse(false)
	send(t, dial(t, l.proxy), "welcome")
	assert.EqualValues(t, 1, l.proxy.Stats().Refused)
}

func TestAServerThatDoesNotListenResets(t *testing.T) {
	listener, _ := listen(t)
	taken, err := net.Dial("tcp", listener.Addr().String()) // no other process can listen at its own end
	require.NoError(t, err)
	defer taken.Close()
	proxy := start(t, taken.LocalAddr().String(), nil)

	require.ErrorIs(t, firstError(proxy), syscall.ECONNRESET)
	assert.EqualValues(t, 1, proxy.Stats().Failed)
}

func TestHoldFromMeetsOnlyItsLabel(t *testing.T) {
	listener, accepted := listen(t)
	proxy := start(t, listener.Addr().String(), &testnet.Options{
		Label: func(head []byte) (string, bool) { return string(head[:1]), true },
	})
	a := dial(t, proxy)
	send(t, a, "a")
	toA := receive(t, accepted)
	expect(t, toA, "a")
	b := dial(t, proxy)
	send(t, b, "b")
	toB := receive(t, accepted)
	expect(t, toB, "b")

	proxy.HoldFrom("a", fault.Both)
	send(t, a, "held")
	hang.Until(t, func() bool { return proxy.Stats().Requests.Waiting == 4 }, "the proxy keeps what was sent")
	send(t, b, "free")
	expect(t, toB, "free")

	proxy.Hold(fault.Both)
	proxy.Heal(fault.Both)
	assert.EqualValues(t, 4, proxy.Stats().Requests.Waiting, "Heal is not HealFrom")
	proxy.HealFrom("a", fault.Both)
	expect(t, toA, "held")
}

func TestFirstBytesAreRewritten(t *testing.T) {
	listener, accepted := listen(t)
	proxy := start(t, listener.Addr().String(), &testnet.Options{
		Rewrite: func(head []byte) (instead []byte, ok bool) {
			_, rest, ok := bytes.Cut(head, []byte("home;"))
			return append([]byte("the proxy;"), rest...), ok
		},
	})
	client := dial(t, proxy)
	send(t, client, "ho")
	send(t, client, "me;and")
	send(t, client, " home; again")

	expect(t, receive(t, accepted), "the proxy;and home; again")
}

func TestCloseEndsEverything(t *testing.T) {
	l := connect(t, nil)
	l.proxy.Hold(fault.Both)
	waiting := dial(t, l.proxy)
	require.NoError(t, l.proxy.Close())
	require.NoError(t, l.proxy.Close())

	_, err := waiting.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = net.Dial("tcp", l.proxy.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

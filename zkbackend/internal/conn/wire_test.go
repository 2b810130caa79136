package conn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

func TestAHandshakeIsParsed(t *testing.T) {
	answer := packet(0, 4000, int64(-77), "0123456789abcdef", byte(1))
	h, err := readHandshake(bytes.NewReader(append(answer, "next"...)))

	require.NoError(t, err)
	assert.Equal(t, handshake{identity: identity{id: -77, passwd: []byte("0123456789abcdef")}, ttl: 4 * time.Second, packet: answer}, h)
}

func TestOddHandshakesAreRefused(t *testing.T) {
	good := packet(0, 1000, int64(1), make([]byte, 20))
	huge, long := bytes.Clone(good), bytes.Clone(good)
	binary.BigEndian.PutUint32(huge, 1<<30)
	binary.BigEndian.PutUint32(long[20:], 1<<31)
	for what, b := range map[string][]byte{
		"nothing": nil, "half a length": good[:2], "a length alone": good[:4], "half": good[:20],
		"too short": {0, 0, 0, 4, 1, 2, 3, 4}, "short": packet(0, 1000, int64(1)), "too long": huge, "a password beyond the end": long,
		"HTTP": []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "no timeout": packet(0, 0, int64(1), make([]byte, 20)),
	} {
		_, err := readHandshake(bytes.NewReader(b))
		require.Error(t, err, what)
	}
}

func TestAHandshakeHasTheFormOfTheProtocol(t *testing.T) {
	b := handshakeRequest(identity{id: 5, passwd: []byte("p")}, 1500*time.Millisecond, 9)
	assert.Equal(t, packet(0, int64(9), 1500, int64(5), "p"), b)
	assert.Equal(t, packet(0, int64(0), 1000, int64(0), string(make([]byte, 16))), handshakeRequest(identity{}, time.Second, 0))
}

// answering is a connection whose replies are there from the start.
type answering struct {
	net.Conn
	replies, requests bytes.Buffer
}

func (c *answering) Read(p []byte) (int, error)  { return c.replies.Read(p) }
func (c *answering) Write(p []byte) (int, error) { return c.requests.Write(p) }

func TestTheEndOfASessionIsSentBehindTheHandshake(t *testing.T) {
	self := identity{id: 7, passwd: make([]byte, 16), born: 42}
	greeting := packet(0, 1000, self.id, string(self.passwd), byte(0))
	reply := func(xid, code int) []byte { return packet(xid, int64(99), code) }
	for name, c := range map[string]struct {
		replies []byte
		is      string // what the error is about; "" for none
	}{
		"ended":                  {slices.Concat(greeting, reply(1, 0)), ""},
		"no such session":        {packet(0, 0, int64(0), "", byte(0)), errExpired.Error()},
		"another session":        {packet(0, 1000, int64(8), string(self.passwd), byte(0)), errExpired.Error()},
		"only a handshake":       {greeting, "close: EOF"},
		"half a reply":           {append(bytes.Clone(greeting), reply(1, 0)[:9]...), "close: unexpected EOF"},
		"refused":                {slices.Concat(greeting, reply(1, -5)), "error is -5"},
		"an answer to something": {slices.Concat(greeting, reply(2, 0)), "request 2"},
		"nothing":                {nil, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &answering{}
			conn.replies.Write(c.replies)

			err := endSession(conn, self, time.Second, nil)

			if c.is == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.is)
			}
			assert.Equal(t, slices.Concat(handshakeRequest(self, time.Second, 42), packet(1, opClose)), conn.requests.Bytes())
		})
	}
}

// TestTheEndOfASessionLogsInFirst, since servers can require a login before they carry out anything.
func TestTheEndOfASessionLogsInFirst(t *testing.T) {
	self := identity{id: 7, passwd: make([]byte, 16), born: 42}
	greeting := packet(0, 1000, self.id, string(self.passwd), byte(0))
	logins := []Auth{{"digest", []byte("a:secret")}, {"other", []byte("b")}}
	for name, c := range map[string]struct {
		codes [3]int // of the answers to the logins and to the request
		is    string // what the error is about; "" for none
		final bool   // no other server can help
		kind  error
	}{
		"ended":           {[3]int{0, 0, 0}, "", false, nil},
		"a login refused": {[3]int{0, -115, 0}, `login with scheme "other": denied by the service: the login was refused`, true, driver.ErrDenied},
		"another wanted":  {[3]int{0, 0, -124}, "by SASL, which this package does not have", true, driver.ErrDenied},
		"refused":         {[3]int{0, 0, -5}, "close: refused by the service", true, driver.ErrRefused},
		"throttled":       {[3]int{0, 0, -127}, "close: ", false, nil},
		"expired":         {[3]int{0, 0, -112}, errExpired.Error(), false, errExpired},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &answering{}
			conn.replies.Write(greeting)
			for i, code := range c.codes {
				conn.replies.Write(packet(i+1, int64(99), code))
			}

			err := endSession(conn, self, time.Second, logins)

			if c.is == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.is)
				assert.NotContains(t, err.Error(), "secret")
			}
			if c.kind != nil {
				require.ErrorIs(t, err, c.kind)
			}
			_, final := errors.AsType[finalError](err)
			assert.Equal(t, c.final, final)
			assert.Equal(t, slices.Concat(handshakeRequest(self, time.Second, 42), packet(1, opAuth, 0, "digest", "a:secret"),
				packet(2, opAuth, 0, "other", "b"), packet(3, opClose)), conn.requests.Bytes(), "sent at once")
		})
	}
}

func FuzzReadHandshake(f *testing.F) {
	f.Add(packet(0, 1000, int64(1), make([]byte, 20)))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHandshake(bytes.NewReader(b))
		if err == nil && h.id != 0 && h.ttl <= 0 {
			t.Fatalf("%v", h)
		}
	})
}

func FuzzReadPacket(f *testing.F) {
	f.Add(packet(1, int64(2), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readPacket(bytes.NewReader(b), 1<<10)
		if err == nil {
			headerOf(p)
			assert.True(t, bytes.HasPrefix(b, p))
		}
	})
}

// TestATransactionOfAnyLengthIsSentOrRefused: the library would panic where its buffer ends within a step.
func TestATransactionOfAnyLengthIsSentOrRefused(t *testing.T) {
	stat := make([]byte, 68)
	s := &server{serve: func(p *peer, r request) bool {
		if r.op() == opMulti {
			p.send(packet(r.xid(), int64(1), 0, 5, byte(0), 0, stat, -1, byte(1), -1))
		}
		return r.op() == opMulti
	}}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		const rest = 8 + 9 + 4 + 2 + 4 + 4 + 9 // the headers, the path and the version
		for n := longestRequest - 20; n <= longestRequest+20; n++ {
			_, err := c.Once(t.Context(), Multi(&zk.SetDataRequest{Path: "/a", Data: make([]byte, n-rest), Version: -1}))
			if n <= longestRequest {
				require.NoError(t, err, n)
			} else {
				require.ErrorIs(t, err, driver.ErrRefused, n)
				require.ErrorIs(t, err, zk.ErrShortBuffer, n)
			}
		}
		sent := s.requests()
		assert.Len(t, sent[len(sent)-1], 4+longestRequest)
	})
}

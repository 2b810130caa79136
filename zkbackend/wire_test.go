package zkbackend

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// helloPacket is a server's answer to a handshake.
func helloPacket(ttl time.Duration, id int64, passwd []byte, more ...byte) []byte {
	b := make([]byte, 4)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(ttl/time.Millisecond))
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = binary.BigEndian.AppendUint32(b, uint32(len(passwd)))
	b = append(append(b, passwd...), more...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func TestHandshakeIsRead(t *testing.T) {
	packet := helloPacket(4*time.Second, -77, []byte("0123456789abcdef"), 1)
	h, err := readHello(bytes.NewReader(append(packet, "next"...)))

	require.NoError(t, err)
	assert.Equal(t, hello{identity: identity{id: -77, passwd: []byte("0123456789abcdef")}, ttl: 4 * time.Second, packet: packet}, h)
}

func TestOddHandshakesAreRefused(t *testing.T) {
	good := helloPacket(time.Second, 1, make([]byte, 16))
	huge := bytes.Clone(good)
	binary.BigEndian.PutUint32(huge, 1<<30)
	long := bytes.Clone(good)
	binary.BigEndian.PutUint32(long[20:], 1<<31)
	for what, b := range map[string][]byte{
		"nothing": nil, "half a length": good[:2], "a length alone": good[:4], "half": good[:20],
		"too short": {0, 0, 0, 4, 1, 2, 3, 4}, "too long": huge, "a password beyond the end": long,
		"HTTP": []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "no timeout": helloPacket(0, 1, make([]byte, 16)),
	} {
		_, err := readHello(bytes.NewReader(b))
		require.Error(t, err, what)
	}
}

func TestHandshakeRequestHasTheFormOfTheProtocol(t *testing.T) {
	b := handshakeRequest(identity{id: 5, passwd: []byte("p")}, 1500*time.Millisecond, 9)
	assert.EqualValues(t, len(b)-4, binary.BigEndian.Uint32(b))
	assert.EqualValues(t, 9, binary.BigEndian.Uint64(b[8:]))
	assert.EqualValues(t, 1500, binary.BigEndian.Uint32(b[16:]))
	assert.EqualValues(t, 5, binary.BigEndian.Uint64(b[20:]))
	assert.Equal(t, "p", string(b[32:]))
	assert.Len(t, handshakeRequest(identity{}, time.Second, 0), 48, "a new session has 16 zeros for a password")
}

// answering is a connection whose other side has said everything already.
type answering struct {
	net.Conn
	says bytes.Buffer
	hear bytes.Buffer
}

func (c *answering) Read(p []byte) (int, error)  { return c.says.Read(p) }
func (c *answering) Write(p []byte) (int, error) { return c.hear.Write(p) }

func TestAFarewellIsSentBehindTheHandshake(t *testing.T) {
	who := identity{id: 7, passwd: make([]byte, 16)}
	hello := helloPacket(time.Second, who.id, who.passwd, 0)
	reply := func(xid, code int32) []byte {
		b := binary.BigEndian.AppendUint32(nil, headerSize)
		b = binary.BigEndian.AppendUint32(b, uint32(xid))
		b = binary.BigEndian.AppendUint64(b, 99)
		return binary.BigEndian.AppendUint32(b, uint32(code))
	}
	for name, c := range map[string]struct {
		says []byte
		is   string // what the error is about; "" for none
	}{
		"ended":                  {slices.Concat(hello, reply(1, 0)), ""},
		"no such session":        {helloPacket(0, 0, nil, 0), errExpired.Error()},
		"another session":        {helloPacket(time.Second, 8, who.passwd, 0), errExpired.Error()},
		"only a handshake":       {hello, "farewell: EOF"},
		"half a reply":           {append(bytes.Clone(hello), reply(1, 0)[:9]...), "farewell: unexpected EOF"},
		"refused":                {slices.Concat(hello, reply(1, -5)), "error -5"},
		"an answer to something": {slices.Concat(hello, reply(2, 0)), "request 2"},
		"nothing":                {nil, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &answering{}
			conn.says.Write(c.says)

			err := bidFarewell(conn, who, time.Second)

			if c.is == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.is)
			}
			sent := conn.hear.Bytes()
			greeting := handshakeRequest(who, time.Second, 0)
			require.True(t, bytes.HasPrefix(sent, greeting))
			xid, op, ok := requestHeader(sent[len(greeting):])
			require.True(t, ok)
			assert.EqualValues(t, opClose, op)
			assert.EqualValues(t, 1, xid)
			assert.Len(t, sent, len(greeting)+12)
		})
	}
}

// TestRepliesAreFoundHoweverTheyAreCut: TCP cuts a stream wherever it likes.
func TestRepliesAreFoundHoweverTheyAreCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want, got []replyHeader
		var stream []byte
		for range rapid.IntRange(0, 6).Draw(t, "replies") {
			h := replyHeader{
				size: headerSize + rapid.IntRange(0, 50).Draw(t, "body"),
				xid:  rapid.Int32().Draw(t, "xid"), zxid: rapid.Int64().Draw(t, "zxid"), code: rapid.Int32().Draw(t, "code"),
			}
			want = append(want, h)
			stream = binary.BigEndian.AppendUint32(stream, uint32(h.size))
			stream = binary.BigEndian.AppendUint32(stream, uint32(h.xid))
			stream = binary.BigEndian.AppendUint64(stream, uint64(h.zxid))
			stream = binary.BigEndian.AppendUint32(stream, uint32(h.code))
			stream = append(stream, make([]byte, h.size-headerSize)...)
		}
		var r replies
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "cut")
			r.pass(stream[:n], func(h replyHeader) { got = append(got, h) })
			stream = stream[n:]
		}
		if !assert.ObjectsAreEqual(want, got) {
			t.Fatalf("want %v, got %v", want, got)
		}
	})
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte{0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0}, 3)
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0}, 20)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var r replies
		cut = max(min(cut, len(b)), 0)
		r.pass(b[:cut], func(replyHeader) {})
		r.pass(b[cut:], func(replyHeader) {})
	})
}

func FuzzReadHello(f *testing.F) {
	f.Add(helloPacket(time.Second, 1, make([]byte, 16)))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(bytes.NewReader(b))
		if err == nil && h.id != 0 && h.ttl <= 0 {
			t.Fatalf("%v", h)
		}
	})
}

package zkstand

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// frame returns a frame with so many bytes after its header.
func frame(first, second int32, rest int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(headerSize-4+rest))
	b = binary.BigEndian.AppendUint32(b, uint32(first))
	b = binary.BigEndian.AppendUint32(b, uint32(second))
	return append(b, make([]byte, rest)...)
}

func TestScanFindsFramesInChunksOfAnySize(t *testing.T) {
	var stream []byte
	for i := range int32(50) {
		stream = append(stream, frame(i, i+100, rand.IntN(40))...)
	}
	var r frames
	var seen []int32
	for rest := stream; len(rest) > 0; {
		n := min(1+rand.IntN(30), len(rest))
		r.scan(rest[:n], func(first, second int32) {
			assert.Equal(t, first+100, second)
			seen = append(seen, first)
		})
		rest = rest[n:]
	}

	require.Len(t, seen, 49, "all but the handshake")
	assert.EqualValues(t, 1, seen[0])
	assert.EqualValues(t, 49, seen[48])
}

func TestConnectionCountsRequestsAnswersEventsAndBytes(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	c := &counted{Conn: near, counter: newCounter()}
	defer c.Close()
	send := func(b []byte) {
		go func() { _, _ = c.Write(b) }()
		_, err := far.Read(make([]byte, 100))
		assert.NoError(t, err)
	}
	receive := func(b []byte) {
		go func() { _, _ = far.Write(b) }()
		_, err := c.Read(make([]byte, 100))
		assert.NoError(t, err)
	}

	send(frame(0, 0, 30)) // the handshake
	receive(frame(0, 0, 30))
	assert.Zero(t, c.Requests())
	send(frame(1, 14, 50))
	send(frame(2, 9, 0))
	send(frame(-2, 11, 0))
	assert.EqualValues(t, 1, c.Requests(), "neither Sync nor ping")
	assert.True(t, c.Busy())

	receive(frame(-1, 0, 20)) // an event
	receive(frame(-2, 0, 8))
	assert.EqualValues(t, 1, c.Events(), "a pong is no event")
	receive(frame(1, 0, 8))
	assert.True(t, c.Busy(), "the Sync was not answered")
	receive(frame(2, 0, 8))
	assert.False(t, c.Busy())
}

func TestEveryRequestHasAKind(t *testing.T) {
	for op := int32(-20); op < 200; op++ {
		assert.Less(t, kindOf(op), len(requestKinds()))
	}
	assert.Equal(t, "list", requestKinds()[kindOf(12)])
	assert.Equal(t, "delete", requestKinds()[kindOf(2)])
	assert.Equal(t, "other", requestKinds()[kindOf(-11)])
}

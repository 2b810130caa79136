package zkbackend

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
)

// read is a packet that asks for a node: length, number, kind, path, watch.
func read(op int32, path string, watch byte) []byte {
	p := make([]byte, 4, 32)
	p = binary.BigEndian.AppendUint32(p, 7)
	p = binary.BigEndian.AppendUint32(p, uint32(op))
	p = binary.BigEndian.AppendUint32(p, uint32(len(path)))
	p = append(append(p, path...), watch)
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	return p
}

func TestAReadWithAMarkBecomesAWatch(t *testing.T) {
	for _, op := range []int32{opGetData, opGetChildren2} {
		marked := read(op, "/fairlock/x"+watchMark, 0)
		before := append([]byte{}, marked...)

		assert.Equal(t, read(op, "/fairlock/x", 1), watching(marked))
		assert.Equal(t, before, marked, "what the library will use again is not changed")
	}
	for _, p := range [][]byte{
		read(opGetData, "/fairlock/x", 0),
		read(opGetData, "/fairlock"+watchMark+"/x", 0),
		read(1, "/fairlock/x"+watchMark, 0),
		handshakeRequest(identity{}, 0, 0),
		{0, 0, 0, 8, 255, 255, 255, 254, 0, 0, 0, 11},
		{},
	} {
		assert.Equal(t, p, watching(append([]byte{}, p...)))
	}
}

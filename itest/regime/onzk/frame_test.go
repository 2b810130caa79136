package onzk

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
)

// reply is an answer with an error code, and what its body begins with.
func reply(code, body int32) frame {
	f := make(frame, 16)
	f = binary.BigEndian.AppendUint32(f, uint32(code))
	return binary.BigEndian.AppendUint32(f, uint32(body))
}

func TestOnlyWhatWasDoneHasAReplyToLose(t *testing.T) {
	assert.True(t, reply(0, 0).done(opGetData))
	assert.True(t, reply(0, partFailed).done(opGetData), "a length")
	assert.False(t, reply(-101, 0).done(opGetData))
	assert.True(t, reply(0, opCreate).done(opMulti))
	assert.False(t, reply(0, partFailed).done(opMulti), "all of a transaction fails with a part, and without an error code")
}

func TestWhatAMajorityHasWillStay(t *testing.T) {
	for _, last := range [][]int64{{5, 7, 9}, {9, 5, 7}, {7, 7, 5}, {7, 9, 0}} {
		assert.EqualValues(t, 7, ofMajority(last))
	}
	assert.EqualValues(t, 3, ofMajority([]int64{1, 2, 3, 4, 5}))
}

package zkframe_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
)

// packet encodes the fields as the protocol does, with the length before them.
func packet(fields ...any) zkframe.Frame {
	f := make(zkframe.Frame, 4)
	for _, field := range fields {
		switch v := field.(type) {
		case int:
			f = binary.BigEndian.AppendUint32(f, uint32(int32(v)))
		case string:
			f = append(binary.BigEndian.AppendUint32(f, uint32(len(v))), v...)
		case byte:
			f = append(f, v)
		case []any:
			f = append(f, packet(v...)[4:]...)
		}
	}
	binary.BigEndian.PutUint32(f, uint32(len(f)-4))
	return f
}

// step is a request of a transaction.
func step(op int, fields ...any) []any {
	return append([]any{op, byte(0), -1}, fields...)
}

// create returns the fields of a create request, with permissions for the world
// and for one user.
func create(path string, flags int) []any {
	return []any{path, "data", 2, 31, "world", "anyone", 1, "digest", "ann:x", flags}
}

func transaction() zkframe.Frame {
	return packet(7, zkframe.OpMulti,
		step(zkframe.OpCreate, create("/a-lock-", 3)...),
		step(zkframe.OpSetData, "/a", "hold", -1),
		step(zkframe.OpCheck, "/b", 4),
		step(zkframe.OpDelete, "/c", 5),
		-1, byte(1), -1)
}

func TestARequestIsRead(t *testing.T) {
	get := packet(6, zkframe.OpGetData, "/a/b", byte(1))
	assert.EqualValues(t, 6, get.Xid())
	assert.EqualValues(t, zkframe.OpGetData, get.Op())
	assert.Equal(t, "/a/b", get.Path())
	assert.True(t, get.Watches())
	assert.False(t, packet(6, zkframe.OpGetData, "/a/b", byte(0)).Watches())

	one := packet(6, zkframe.OpCreate, create("/a", 2))
	assert.Equal(t, []zkframe.Part{{Op: zkframe.OpCreate, Path: "/a", Flags: 2}}, one.Parts())
}

func TestATransactionIsReadInParts(t *testing.T) {
	f := transaction()

	assert.Equal(t, "/a-lock-", f.FirstPath())
	assert.Equal(t, []zkframe.Part{
		{Op: zkframe.OpCreate, Path: "/a-lock-", Flags: 3},
		{Op: zkframe.OpSetData, Path: "/a"},
		{Op: zkframe.OpCheck, Path: "/b"},
		{Op: zkframe.OpDelete, Path: "/c"},
	}, f.Parts())
}

func TestDoneIsFalseForAnyError(t *testing.T) {
	reply := func(code, body int) zkframe.Frame { return packet(7, 0, 99, code, body) }
	assert.True(t, reply(0, 0).Done(zkframe.OpGetData))
	assert.True(t, reply(0, -1).Done(zkframe.OpGetData), "a length")
	assert.False(t, reply(-101, 0).Done(zkframe.OpGetData))
	assert.True(t, reply(0, zkframe.OpCreate).Done(zkframe.OpMulti))
	assert.False(t, reply(0, -1).Done(zkframe.OpMulti), "all of a transaction fails with a part, and without an error code")
}

func TestEndSendsTheSessionAndItsPassword(t *testing.T) {
	r := bytes.NewReader(zkframe.End(1<<40|5, "secret", 2*time.Second))

	handshake, err := zkframe.Read(r)
	require.NoError(t, err)
	assert.Equal(t, packet(0, 0, 0, 2000, 1<<8, 5, "secret"), handshake)
	closing, err := zkframe.Read(r)
	require.NoError(t, err)
	assert.Equal(t, packet(1, zkframe.OpClose), closing)
	_, err = zkframe.Read(r)
	require.ErrorIs(t, err, io.EOF)

	session, password := packet(0, 2000, 1<<8, 5, "secret").Identity()
	assert.EqualValues(t, 1<<40|5, session)
	assert.Equal(t, "secret", password)
}

func TestHalfAPacketIsAnError(t *testing.T) {
	f := transaction()
	for n := range len(f) {
		_, err := zkframe.Read(bytes.NewReader(f[:n]))
		require.Error(t, err, "%d bytes", n)
	}
}

// FuzzParts checks that the methods accept any packet, and that the number of
// parts is bounded by the packet's length: a broken packet may claim billions of
// permissions.
func FuzzParts(f *testing.F) {
	whole := transaction()
	for n := range len(whole) {
		f.Add([]byte(whole[:n]))
	}
	many := slices.Clone(whole)
	binary.BigEndian.PutUint32(many[41:], 1<<31-1)
	f.Add([]byte(many))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := zkframe.Frame(b)
		p.Identity()
		p.Watches()
		p.Done(zkframe.OpMulti)
		assert.LessOrEqual(t, len(p.Parts()), 1+len(b)/9)
	})
}

package zkbackend

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// listRequest is a packet that asks for a folder.
func listRequest(op int32, path string) []byte {
	b := make([]byte, 4, 32)
	b = binary.BigEndian.AppendUint32(b, 7)
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	b = binary.BigEndian.AppendUint32(b, uint32(len(path)))
	b = append(append(b, path...), 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// TestAnOrderIsKeptOnlyIfNobodyElseCanHaveBrokenIt: whichever of the requests were
// ours, they left in the right order.
func TestAnOrderIsKeptOnlyIfNobodyElseCanHaveBrokenIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOf(rapid.SampledFrom([]string{"/line", "/limit", "/other", "/li"})).Draw(t, "paths")
		tp := newTap(nil, nil, 0, nil, nil)
		o := tp.follow("/line", "/limit")
		for i, p := range paths {
			tp.asks(int32(i), opChildren, listRequest(opChildren, p))
			tp.asks(int32(i), opAuth, listRequest(opAuth, p))
		}
		lines, limits, right := 0, 0, true
		for i, p := range paths {
			if p == "/line" {
				lines++
			}
			if p != "/limit" {
				continue
			}
			limits++
			for _, later := range paths[i:] {
				right = right && later != "/line"
			}
		}
		if got, want := tp.kept(o), lines > 0 && limits > 0 && right; got != want {
			t.Fatalf("%q: kept is %v, want %v", paths, got, want)
		}
		if len(tp.orders) != 0 {
			t.Fatal("it is still followed")
		}
	})
}

func TestBrokenRequestsAreNoOrder(t *testing.T) {
	tp := newTap(nil, nil, 0, nil, nil)
	o := tp.follow("/line", "/limit")
	for _, packet := range [][]byte{nil, listRequest(opChildren, "/line")[:18], {0: 1, 15: 255}} {
		tp.asks(1, opChildren, packet)
	}
	assert.False(t, tp.kept(o))
	assert.Zero(t, o.n)
}

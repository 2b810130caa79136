package zkbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// TestAnOrderIsKeptOnlyIfNobodyElseCanHaveBrokenIt: whichever of the requests were
// ours, they left in the right order.
func TestAnOrderIsKeptOnlyIfNobodyElseCanHaveBrokenIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOf(rapid.SampledFrom([]string{"/line", "/limit", "/other", "/li", "/line" + watchMark})).Draw(t, "paths")
		tp := newTap(nil, nil, 0, nil, nil)
		o := tp.follow("/line", "/limit")
		for i, p := range paths {
			tp.asks(int32(i), opGetChildren2, read(opGetChildren2, p, 0))
			tp.asks(int32(i), opAuth, read(opAuth, p, 0))
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
	for _, packet := range [][]byte{nil, read(opGetChildren2, "/line", 0)[:18], {0: 1, 15: 255}} {
		tp.asks(1, opGetChildren2, packet)
	}
	assert.False(t, tp.kept(o))
	assert.Zero(t, o.n)
}

package etcdbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver"
)

func TestSlotIsFreeOnlyWhenItsEntryIsGone(t *testing.T) {
	var ls lines
	a, b := ls.take("x"), ls.take("x")
	assert.Equal(t, []int{0, 1}, []int{a, b})
	ls.fill("x", a, 7, 1, nil)

	ls.release("x", a, 0) // a late "it was never made"
	assert.Equal(t, 2, ls.take("x"))
	ls.release("x", a, 7)
	assert.Equal(t, a, ls.take("x"))
	ls.fill("x", a, 9, 2, nil)
	ls.release("x", a, 7) // the old entry's end, told twice
	assert.Equal(t, 3, ls.take("x"))
}

func TestNothingIsKeptOfIdleLines(t *testing.T) {
	var ls lines
	lay := layout{root: "r"}
	for range 3 {
		slot := ls.take("x")
		ls.fill("x", slot, 7, 1, nil)
		ls.gone(lay, driver.Ref{Line: "x", Key: "r/x/abc.0", Place: 7})
	}
	ref := driver.Ref{Line: "x", Key: "r/x/abc.0", Place: 7}
	ls.setUnsure(ref, true)
	assert.True(t, ls.isUnsure(ref))
	ls.setUnsure(ref, false)
	assert.Empty(t, ls.m)
	assert.Empty(t, ls.unsure)
}

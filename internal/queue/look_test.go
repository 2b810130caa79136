package queue

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

func TestNearIsTheEndOfWhatIsRelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ln := &line{seats: map[driver.Ref]*seat{}}
		mode := rapid.SampledFrom([]driver.Mode{driver.Exclusive, driver.Shared})
		view := entries(rapid.SliceOfNDistinct(rapid.Int64Range(1, 50), 0, 12, rapid.ID).Draw(t, "places")...)
		for i := range view {
			view[i].Mode = mode.Draw(t, fmt.Sprint("mode of ", i))
			view[i].Value = []byte("of the owner")
			if rapid.Bool().Draw(t, fmt.Sprint("holds here ", i)) {
				o := &seat{entry: view[i], state: held}
				if o.entry.Mode == driver.Exclusive && rapid.Bool().Draw(t, fmt.Sprint("is a reader by now ", i)) {
					o.entry.Mode, o.turned = driver.Shared, 100+view[i].Place
				}
				ln.seats[view[i].Ref] = o
			}
		}
		s := &seat{need: rapid.IntRange(0, 4).Draw(t, "need"), rule: Rule{Limited: rapid.Bool().Draw(t, "limited")}}
		s.entry.Mode = mode.Draw(t, "mine")

		near, all, turned := ln.near(s, view)

		want := make([]driver.Entry, len(view))
		for i, e := range view {
			want[i] = ln.known(e)
		}
		want, wantAll := slim(s.relevant(want)), true
		if s.need > 0 && len(want) > s.need && !s.rule.Limited {
			want, wantAll = want[len(want)-s.need:], false
		}
		assert.Equal(t, len(want), len(near))
		for i := range want {
			assert.Equal(t, want[i], near[i])
		}
		assert.Equal(t, wantAll, all)

		known, turnedSince := ln.asKnown(s, view)
		var wantTurned int64
		for i, e := range view {
			if s.entry.Mode == driver.Shared {
				assert.Equal(t, ln.known(e), known[i])
				if known[i].Mode != e.Mode {
					wantTurned = max(wantTurned, 100+e.Place)
				}
			}
		}
		assert.Equal(t, wantTurned, turnedSince)
		if all {
			assert.Equal(t, wantTurned, turned)
		}
	})
}

// Ten thousand who wait in one process learn from one view. It took minutes when
// each of them copied all of it, with the line locked.
func TestWhatIsLearnedFromALongViewIsShort(t *testing.T) {
	places := make([]int64, 10_000)
	for i := range places {
		places[i] = int64(i + 1)
	}
	view := entries(places...)
	ln := &line{e: &engine{}, seats: map[driver.Ref]*seat{}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	for i := range 100 {
		s := &seat{rule: Mutex(), need: Mutex().Need, entry: driver.Entry{Ref: driver.Ref{Place: int64(len(view) - i)}}}
		near, all, _ := ln.near(s, view[:len(view)-i-1])
		assert.Equal(t, view[len(view)-i-3:len(view)-i-1], slices.Clip(near))
		assert.False(t, all)
	}

	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10<<20), "the view has some %d MB, 100 copies a hundred times that", len(view)*200>>20)
}

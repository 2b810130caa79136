package queue

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestATableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got table[int, int]
		want := map[int]int{}
		for range rapid.IntRange(0, 60).Draw(t, "changes") {
			k := rapid.IntRange(0, 8).Draw(t, "key")
			if rapid.Bool().Draw(t, "put") {
				v := rapid.Int().Draw(t, "value")
				got.put(k, v)
				want[k] = v
			} else {
				got.remove(k)
				delete(want, k)
			}

			require.Equal(t, want[k], got.get(k))
			require.Equal(t, len(want), got.len())
			require.Equal(t, want, maps.Collect(got.all()))
		}
	})
}

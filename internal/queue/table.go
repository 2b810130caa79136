package queue

import (
	"iter"
	"maps"
	"slices"
)

// table is a map that takes little memory while it has few keys: most queues have one own
// entry and one watch, and a map has room for eight. The zero value is ready for use.
type table[K comparable, V any] struct {
	few  []cell[K, V]
	many map[K]V // instead of few; nil while those suffice
}

type cell[K comparable, V any] struct {
	k K
	v V
}

// mostFew is how many keys are searched one after another.
const mostFew = 4

// index returns where a key is among few, -1 if it is not there.
func (t *table[K, V]) index(k K) int {
	return slices.IndexFunc(t.few, func(c cell[K, V]) bool { return c.k == k })
}

// get returns the value of a key, zero if it has none.
func (t *table[K, V]) get(k K) (v V) {
	if t.many != nil {
		return t.many[k]
	}
	if i := t.index(k); i >= 0 {
		v = t.few[i].v
	}
	return v
}

// put gives a key a value.
func (t *table[K, V]) put(k K, v V) {
	i := t.index(k)
	switch {
	case t.many != nil:
		t.many[k] = v
	case i >= 0:
		t.few[i].v = v
	case len(t.few) < mostFew:
		t.few = append(t.few, cell[K, V]{k, v})
	default:
		t.many = maps.Collect(t.all())
		t.many[k] = v
		t.few = nil
	}
}

// remove removes a key.
func (t *table[K, V]) remove(k K) {
	if t.many != nil {
		if delete(t.many, k); len(t.many) == 0 {
			t.many = nil // a map keeps the room that it once needed
		}
		return
	}
	if i := t.index(k); i >= 0 {
		t.few = slices.Delete(t.few, i, i+1)
	}
}

// len returns how many keys there are.
func (t *table[K, V]) len() int { return len(t.few) + len(t.many) }

// all yields the keys and their values, in no order. The table must not change meanwhile.
func (t *table[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, c := range t.few {
			if !yield(c.k, c.v) {
				return
			}
		}
		for k, v := range t.many {
			if !yield(k, v) {
				return
			}
		}
	}
}

package fence_test

import (
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

func TestTouch(t *testing.T) {
	for _, c := range []struct {
		name  string
		marks fence.Marks
		token session.Token
		mode  session.Mode
		after fence.Marks
		stale session.Token // that outbids it
	}{
		{"first writer", fence.Marks{}, 5, session.Exclusive, fence.Marks{Exclusive: 5}, 0},
		{"first reader", fence.Marks{}, 5, session.Shared, fence.Marks{Shared: 5}, 0},
		{"writer again", fence.Marks{Exclusive: 5}, 5, session.Exclusive, fence.Marks{Exclusive: 5}, 0},
		{"next writer", fence.Marks{Exclusive: 5}, 6, session.Exclusive, fence.Marks{Exclusive: 6}, 0},
		{"late writer", fence.Marks{Exclusive: 5}, 4, session.Exclusive, fence.Marks{}, 5},
		{"late writer behind a reader", fence.Marks{Exclusive: 3, Shared: 5}, 4, session.Exclusive, fence.Marks{}, 5},
		{"writer behind readers", fence.Marks{Exclusive: 3, Shared: 5}, 6, session.Exclusive, fence.Marks{Exclusive: 6, Shared: 5}, 0},
		{"reader behind a writer", fence.Marks{Exclusive: 5}, 6, session.Shared, fence.Marks{Exclusive: 5, Shared: 6}, 0},
		{"late reader", fence.Marks{Exclusive: 5}, 4, session.Shared, fence.Marks{}, 5},
		{"reader behind a newer reader", fence.Marks{Exclusive: 3, Shared: 9}, 4, session.Shared, fence.Marks{Exclusive: 3, Shared: 9}, 0},
		{"writer that has become a reader", fence.Marks{Exclusive: 5}, 5, session.Shared, fence.Marks{Exclusive: 5, Shared: 5}, 0},
		{"the same next to newer readers", fence.Marks{Exclusive: 5, Shared: 7}, 5, session.Shared, fence.Marks{Exclusive: 5, Shared: 7}, 0},
		{"its late write, when readers have come", fence.Marks{Exclusive: 5, Shared: 7}, 5, session.Exclusive, fence.Marks{}, 7},
		{"the last token", fence.Marks{Exclusive: 5}, math.MaxInt64, session.Exclusive, fence.Marks{Exclusive: math.MaxInt64}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, err := c.marks.Touch(c.token, c.mode)

			if c.stale == 0 {
				require.NoError(t, err)
				assert.Equal(t, c.after, after)
				return
			}
			require.ErrorIs(t, err, fence.ErrStale)
			var stale *fence.StaleError
			require.ErrorAs(t, err, &stale)
			assert.Equal(t, fence.StaleError{Token: c.token, Mode: c.mode, Seen: c.stale}, *stale)
			assert.Equal(t, c.marks, after)
		})
	}
}

func TestErrorNamesBothTokens(t *testing.T) {
	_, err := fence.Marks{Exclusive: 7}.Touch(5, session.Shared)

	assert.EqualError(t, err, "fence: stale token: shared token 5 refused: token 7 was seen")
}

func TestTokensAndModesThatNoHoldHasAreRefused(t *testing.T) {
	for _, token := range []session.Token{0, -1, math.MinInt64} {
		for _, mode := range []session.Mode{session.Exclusive, session.Shared} {
			after, err := fence.Marks{Exclusive: 3}.Touch(token, mode)

			require.Error(t, err, "%d", token)
			assert.NotErrorIs(t, err, fence.ErrStale, "no lock was lost")
			assert.Equal(t, fence.Marks{Exclusive: 3}, after)
		}
	}
	var g fence.Gate
	require.ErrorContains(t, g.Admit(3, "half"), `mode "half"`)
	require.ErrorContains(t, g.Do(3, "half", nil), `mode "half"`)
	assert.Zero(t, g.Marks())
}

func TestMarksSurviveInJSON(t *testing.T) {
	want := fence.Marks{Exclusive: math.MaxInt64, Shared: 7}
	text, err := json.Marshal(want)
	require.NoError(t, err)
	assert.JSONEq(t, `{"exclusive":9223372036854775807,"shared":7}`, string(text))

	var got fence.Marks
	require.NoError(t, json.Unmarshal(text, &got))

	assert.Equal(t, want, got)
}

// The gate keeps two numbers. It must decide like a model that keeps every
// token.
func TestGateDecidesLikeAModelThatKeepsEveryToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gate := fence.NewGate(fence.Marks{})
		var writers, all []session.Token
		for range rapid.IntRange(1, 40).Draw(t, "touches") {
			token := session.Token(rapid.Int64Range(1, 12).Draw(t, "token"))
			mode := rapid.SampledFrom([]session.Mode{session.Exclusive, session.Shared}).Draw(t, "mode")
			outbid := func(seen []session.Token) bool {
				return slices.ContainsFunc(seen, func(o session.Token) bool { return o > token })
			}
			refused := outbid(writers) || mode == session.Exclusive && outbid(all)
			if rapid.Bool().Draw(t, "restart") {
				gate = fence.NewGate(gate.Marks())
			}

			before := gate.Marks()
			var err error
			ran := !refused
			if rapid.Bool().Draw(t, "do") {
				ran = false
				err = gate.Do(token, mode, func(fence.Marks) error { ran = true; return nil })
			} else {
				err = gate.Admit(token, mode)
			}

			if got := errors.Is(err, fence.ErrStale); got != refused || ran == refused {
				t.Fatalf("%s %d: refused %t, want %t, after %v", mode, token, got, refused, all)
			}
			if after := gate.Marks(); after.Exclusive < before.Exclusive || after.Shared < before.Shared {
				t.Fatalf("marks fell from %+v to %+v", before, after)
			}
			if refused {
				continue
			}
			all = append(all, token)
			if mode == session.Exclusive {
				writers = append(writers, token)
			}
		}
	})
}

func TestGateRemembersATokenWhoseWorkFailed(t *testing.T) {
	var g fence.Gate
	broken := errors.New("disk full")

	err := g.Do(5, session.Exclusive, func(m fence.Marks) error {
		assert.Equal(t, fence.Marks{Exclusive: 5}, m)
		return broken
	})

	require.ErrorIs(t, err, broken)
	assert.ErrorIs(t, g.Admit(4, session.Exclusive), fence.ErrStale)
}

func TestSharedHoldsWorkTogether(t *testing.T) {
	var g fence.Gate
	const readers = 3
	var in sync.WaitGroup
	in.Add(readers)
	var all sync.WaitGroup

	for i := range readers {
		all.Go(func() {
			assert.NoError(t, g.Do(session.Token(5+i), session.Shared, func(fence.Marks) error {
				in.Done()
				in.Wait() // forever, if they ran one by one
				return nil
			}))
		})
	}
	all.Wait()

	assert.Equal(t, fence.Marks{Shared: 7}, g.Marks())
}

func TestWritersAreAloneAndInTheOrderOfTheirTokens(t *testing.T) {
	var g fence.Gate
	var next, writers, readers atomic.Int64
	var done []session.Token
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				mode := []session.Mode{session.Exclusive, session.Shared}[i%2]
				token := session.Token(next.Add(1))
				_ = g.Do(token, mode, func(fence.Marks) error {
					in := &readers
					if mode == session.Exclusive {
						in = &writers
						done = append(done, token)
					}
					in.Add(1)
					defer in.Add(-1)
					runtime.Gosched() // lets others run their fn, if the gate allows it
					if w, r := writers.Load(), readers.Load(); w > 1 || w == 1 && r > 0 {
						t.Errorf("%d writers and %d readers work at once", w, r)
					}
					return nil
				})
			}
		})
	}
	all.Wait()

	assert.NotEmpty(t, done)
	assert.True(t, slices.IsSorted(done))
}

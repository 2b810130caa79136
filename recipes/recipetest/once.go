package recipetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// onces are the cases of work that is done once for each key.
func onces() []testCase {
	return slices.Concat(
		[]testCase{
			{"ReplicasRunEachKeyOnce", onceEach},
			{"WhatHasFailedOrPanickedRunsAgain", onceFailed},
			{"WhatALostHolderDidRunsAgain", onceLost},
			{"OnceCountsWhenItsCallerHasGivenUp", onceGivenUp},
			{"OnceInsideItsLockIsReentrant", onceInside},
			{"WhatIsDoneIsRecordedAfterOtherCallsAboutTheEntry", onceLong},
		},
		over("OnceIsOnceWithA%v", fault.Retryable(), onceSurvives),
	)
}

// runs counts how often work ran, by its key.
type runs struct {
	mu sync.Mutex
	of map[string]int
}

// work returns work that counts itself and then calls end.
func (r *runs) work(key string, end func(ctx context.Context, h *session.Hold) error) func(context.Context, *session.Hold) error {
	return func(ctx context.Context, h *session.Hold) error {
		r.mu.Lock()
		if r.of == nil {
			r.of = map[string]int{}
		}
		r.of[key]++
		r.mu.Unlock()
		return end(ctx, h)
	}
}

// succeeds is the end of work that succeeds.
func succeeds(context.Context, *session.Hold) error { return nil }

// once makes a call for key "a" that must succeed.
func (p *Client) once(fn func(context.Context, *session.Hold) error) {
	p.w.t.Helper()
	require.NoError(p.w.t, mutex.New(p.Session, name).Once(p.w.soon(), "a", fn))
}

func onceEach(w *Fixture) {
	const keys = 5
	var did runs
	ps := w.clients(3)
	failed := make([]error, len(ps))
	Each(len(ps), func(i int) {
		for k := range keys {
			key := fmt.Sprint("tick ", k)
			err := mutex.New(ps[i].Session, name).Once(w.soon(), key, did.work(key, succeeds))
			failed[i] = errors.Join(failed[i], err)
		}
	})

	require.NoError(w.t, errors.Join(failed...))
	assert.Len(w.t, did.of, keys)
	for key, n := range did.of {
		assert.Equal(w.t, 1, n, key)
	}
	other := w.Client("other")
	require.NoError(w.t, mutex.New(other.Session, name+"/2").Once(w.soon(), "tick 0", did.work("another lock", succeeds)))
	assert.Equal(w.t, 1, did.of["another lock"], "each lock has its own keys")
}

func onceFailed(w *Fixture) {
	var did runs
	one, two := w.Client("one"), w.Client("two")
	broken := errors.New("broken")
	err := mutex.New(one.Session, name).Once(w.soon(), "a", did.work("a", func(context.Context, *session.Hold) error { return broken }))
	require.ErrorIs(w.t, err, broken)
	assert.PanicsWithValue(w.t, "broken", func() {
		_ = mutex.New(one.Session, name).Once(w.soon(), "a", did.work("a", func(context.Context, *session.Hold) error { panic("broken") }))
	})
	two.once(did.work("a", succeeds))
	one.once(did.work("a", succeeds))
	assert.Equal(w.t, 3, did.of["a"])
}

func onceLost(w *Fixture) {
	var did runs
	one, two := w.Client("one"), w.Client("two")
	err := mutex.New(one.Session, name).Once(w.soon(), "a", did.work("a", func(_ context.Context, h *session.Hold) error {
		w.svc.Delete(w.t, Refs(h)[0]) // the work is done before the holder learns of it
		return nil
	}))
	require.ErrorIs(w.t, err, session.ErrLost)
	two.once(did.work("a", succeeds))
	assert.Equal(w.t, 2, did.of["a"])
}

func onceGivenUp(w *Fixture) {
	var did runs
	one, two := w.Client("one"), w.Client("two")
	ctx, cancel := context.WithCancel(w.soon())
	require.NoError(w.t, mutex.New(one.Session, name).Once(ctx, "a", did.work("a", func(context.Context, *session.Hold) error {
		cancel()
		return nil
	})))
	two.once(did.work("a", succeeds))
	assert.Equal(w.t, 1, did.of["a"])
}

func onceInside(w *Fixture) {
	p := w.Client("p")
	m := mutex.NewWith(p.Session, name, mutex.Options{Reentrant: true})
	w.released(m.Do(w.soon(), func(ctx context.Context, _ *session.Hold) error {
		require.ErrorIs(w.t, m.Once(ctx, "a", succeeds), session.ErrReentrant)
		return nil
	}))
}

// onceLong: the work ends while the time of the grant is being stored with the entry, which
// begins after a second and whose answer is lost here.
func onceLong(w *Fixture) {
	var did runs
	one, two := w.Client("one"), w.Client("two")
	one.once(did.work("a", func(context.Context, *session.Hold) error {
		one.net.Inject(fault.Update, fault.LostReply)
		before := one.net.Requests()
		Until(w.t, "a request for the time of the grant", func() bool { return one.net.Requests() > before })
		return nil
	}))
	two.once(did.work("a", succeeds))
	assert.Equal(w.t, 1, did.of["a"])
}

func onceSurvives(w *Fixture, f fault.Kind) {
	var did runs
	one, two := w.Client("one"), w.Client("two")
	one.once(did.work("a", func(context.Context, *session.Hold) error {
		one.net.Inject(fault.Update, f)
		return nil
	}))
	two.once(did.work("a", succeeds))
	one.once(did.work("a", succeeds))
	assert.Equal(w.t, 1, did.of["a"])
}

package recipetest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// grants are the cases of a queue without faults.
func grants() []testCase {
	return []testCase{
		{"GrantsInTheOrderOfTheQueue", func(w *Fixture) {
			inOrder(w, func(int) locking { return lock }, func(int, *Client, *session.Hold) {})
		}},
		{"GoroutinesOfOneSessionExcludeEachOther", oneSession},
		{"SessionsExcludeEachOtherAndTokensRise", manySessions},
		{"TryLockOnATakenLockWritesNothing", tryWritesNothing},
		{"QueueShowsAllEntriesInOrder", queueShows},
		{"AReleaseBeforeTheWatchIsArmedIsSeenByARead", releaseBeforeWatch},
	}
}

// inOrder has requests wait in one queue, and calls check with another client at each
// grant.
func inOrder(w *Fixture, want func(i int) locking, check func(i int, p *Client, h *session.Hold)) {
	ps := w.clients(4)
	h := ps[0].holds(want(-1))
	var waits []*Request
	for i := range 12 { // several of each session, others between them
		waits = append(waits, ps[i*i%len(ps)].queueFor(w.soon(), want(i)))
	}
	last := h.Token()
	for i, r := range waits {
		w.unlock(h)
		h = r.granted()

		check(i, ps[(i+1)%len(ps)], h)
		assert.Equal(w.t, r.token, h.Token(), "request %d kept its place", i)
		assert.Greater(w.t, h.Token(), last, "request %d", i)
		last = h.Token()
		for _, later := range waits[i+1:] {
			require.True(w.t, later.waiting(), "a later request overtook request %d", i)
		}
	}
	w.unlock(h)
}

// contend makes n goroutines lock and unlock, each several times, and returns
// the tokens in the order of the grants. Nothing else synchronises what they do while
// they hold: the race detector checks exclusion.
func (w *Fixture) contend(n, times int, of func(i int) *session.Session) []session.Token {
	var tokens []session.Token
	inside := 0
	var wg sync.WaitGroup
	for i := range n {
		m := mutex.New(of(i), name)
		wg.Go(func() {
			for range times {
				err := m.Do(w.soon(), func(_ context.Context, h *session.Hold) error {
					inside++
					assert.Equal(w.t, 1, inside, "two inside")
					tokens = append(tokens, h.Token())
					inside--
					return nil
				})
				if !w.released(err) {
					return
				}
			}
		})
	}
	wg.Wait()
	return tokens
}

func oneSession(w *Fixture) {
	p := w.Client("all")
	n := w.many(100)
	tokens := w.contend(n, 3, func(int) *session.Session { return p.Session })

	assert.Len(w.t, tokens, 3*n)
	assert.IsIncreasing(w.t, tokens)
}

func manySessions(w *Fixture) {
	ps := w.clients(6)
	tokens := w.contend(12, 20, func(i int) *session.Session { return ps[i%len(ps)].Session })

	assert.Len(w.t, tokens, 240)
	assert.IsIncreasing(w.t, tokens)
}

func tryWritesNothing(w *Fixture) {
	a, b := w.Client("nightly"), w.Client("b")
	h := a.hold()
	a.recorded()
	before := a.entries()
	var err error
	b.sends(max(w.h.Try, 1), "a try", func() {
		_, err = w.try(mutex.New(b.Session, name).TryLock)
		require.ErrorIs(w.t, err, session.ErrNotAcquired)
	})
	assert.Equal(w.t, before, a.entries())
	var na *session.NotAcquiredError
	require.ErrorAs(w.t, err, &na)
	assert.Equal(w.t, Refs(h)[0], Detail(na.Holder).Ref)
	if !w.h.Virtual || na.Ahead >= 0 { // some services in memory do not report it
		assert.Equal(w.t, 1, na.Ahead)
	}
	assert.Contains(w.t, err.Error(), "(nightly)", "it names the holder")
	w.unlock(h)
	h, err = w.try(mutex.New(b.Session, name).TryLock)
	require.NoError(w.t, err)
	<-b.joined
	w.unlock(h)
}

func queueShows(w *Fixture) {
	a, b := w.Client("first"), w.Client("second")
	h := a.hold()
	waits := b.queue(w.soon())
	entries := b.entries()

	require.Len(w.t, entries, 2)
	for i, label := range []string{"first", "second"} {
		assert.Equal(w.t, label, metaOf(entries[i]).Label)
		assert.Equal(w.t, "mutex", metaOf(entries[i]).Kind)
		assert.NotEmpty(w.t, metaOf(entries[i]).Host)
		assert.NotZero(w.t, metaOf(entries[i]).PID)
		assert.NotZero(w.t, metaOf(entries[i]).Since)
		assert.NotEmpty(w.t, entries[i].Session)
	}
	assert.EqualValues(w.t, h.Token(), entries[0].Token)
	assert.EqualValues(w.t, waits.token, entries[1].Token)
	names, err := a.Names(w.soon(), "ord")
	require.NoError(w.t, err)
	assert.Equal(w.t, []string{name}, names)
	w.unlock(h)
	w.unlock(waits.granted())
}

// releaseBeforeWatch: the predecessor ends when the waiter has joined and has no watch
// yet, so no event comes. The watch must report that when it is armed. In virtual time
// no timer of the waiter can have fired by then.
func releaseBeforeWatch(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	b.net.Delay(100 * time.Millisecond)
	r := b.start(w.soon())
	w.eventually(2, "b has joined, and has no answer yet")
	w.unlock(h)
	released := time.Now()
	h = r.granted()
	if w.h.Virtual {
		assert.Less(w.t, r.at.Sub(released), 2*time.Second, "the waiter was granted by its timer, and not by its watch")
	}
	b.net.Heal()
	w.unlock(h)
}

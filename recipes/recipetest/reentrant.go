package recipetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// reentrants are the cases of callers that hold the lock already.
func reentrants() []testCase {
	return slices.Concat(
		[]testCase{
			{"RLockInRLockSharesTheEntry", rlockInRLock},
			{"RLockInLockOutlivesTheWriterAsADowngrade", writerFirst},
			{"RLockInLockReleasedFirstKeepsTheWriter", readerFirst},
			{"WriterReleasedFirstDuringACutBecomesAReaderAfterIt", writerFirstCut},
			{"APendingDowngradeChangesNothingAfterTheRelease", pendingDowngradeReleased},
			{"LockInsideIsRefused", lockInside},
			{"DowngradeWithinKeepsBoth", downgradeInside},
			{"LossEndsAllReentrantHolds", lossInside},
			{"UnlockOfBothAtOnceLeavesNothing", bothAtOnce},
			{"ReentrantLockRacingUnlockLeavesNothing", func(w *Fixture) {
				enterRacingUnlock(w, func(ctx context.Context, s *session.Session) (*session.Hold, error) {
					return mutex.NewWith(s, name, mutex.Options{Reentrant: true}).Lock(ctx)
				})
			}},
			{"RLockInRLockRacingUnlockLeavesNothing", func(w *Fixture) { enterRacingUnlock(w, reading) }},
		},
		over("WriterReleasedFirstWith%vBecomesAReader", []fault.Kind{fault.LostReply, fault.BrokenReply, fault.LostRequest}, writerFirstFault),
	)
}

// inside returns one more handle on a hold, for which nothing is sent.
func (p *Client) inside(h *session.Hold) *session.Hold {
	p.w.t.Helper()
	var h2 *session.Hold
	p.sends(0, "one more handle", func() {
		var err error
		h2, err = rwlock.New(p.Session, name).RLock(h.Context())
		require.NoError(p.w.t, err)
	})
	assert.Equal(p.w.t, h.Token(), h2.Token())
	assert.Equal(p.w.t, session.Shared, h2.Mode())
	return h2
}

// rlockInRLock: a second RLock does not wait behind a writer that waits for the first,
// which would be a deadlock.
func rlockInRLock(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	outer := a.holds(reading)
	writer := b.queueFor(w.soon(), writing)
	inner := a.inside(outer)
	innermost := a.inside(inner)
	require.Equal(w.t, 2, w.svc.Count(w.t, name))
	w.unlock(outer)
	require.ErrorIs(w.t, context.Cause(outer.Context()), session.ErrReleased)
	require.ErrorIs(w.t, outer.Unlock(), session.ErrUnlocked)
	require.NoError(w.t, inner.Context().Err(), "it goes on")
	w.unlock(inner)
	w.wait("one is still inside", writer)
	w.unlock(innermost)
	w.unlock(writer.granted())
}

func writerFirst(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	outer := a.holds(writing)
	readers := []*Request{b.queueFor(w.soon(), reading), a.queueFor(w.soon(), reading)}
	writer := c.queueFor(w.soon(), writing)
	inner := a.inside(outer)
	token := inner.Token()
	w.wait("a writer holds", readers...)
	w.unlock(outer)
	for _, r := range readers {
		r.granted()
	}
	w.wait("readers hold", writer)

	require.NoError(w.t, inner.Context().Err(), "the reader goes on")
	assert.NotZero(w.t, inner.Remaining())
	assert.Equal(w.t, token, inner.Token())
	first := c.nth(0)
	assert.True(w.t, first.Shares())
	assert.EqualValues(w.t, token, first.Token)
	assert.Equal(w.t, first.Ref, Refs(inner)[0])
	for _, r := range readers {
		w.unlock(r.Hold)
	}
	w.wait("the first one still reads", writer)
	w.unlock(inner)
	w.unlock(writer.granted())
}

func writerFirstFault(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	outer := a.holds(writing)
	reader, writer := b.queueFor(w.soon(), reading), b.queueFor(w.soon(), writing)
	inner := a.inside(outer)
	a.net.Inject(fault.Update, f)
	UnlockInTrouble(w.t, outer)
	reader.granted()
	require.NoError(w.t, inner.Context().Err())
	w.unlock(reader.Hold)
	w.wait("the first one still reads", writer)
	w.unlock(inner)
	w.unlock(writer.granted())
}

// pendingDowngrade returns a writer's second handle, of which the first was unlocked during a
// cut: the session repeats the downgrade until the service acknowledges it.
func (w *Fixture) pendingDowngrade(a *Client) (inner *session.Hold) {
	w.t.Helper()
	outer := a.holds(writing)
	inner = a.inside(outer)
	a.net.Cut(fault.Both)
	at := time.Now()
	err := outer.Unlock()
	require.ErrorIs(w.t, err, session.ErrReleasePending)
	w.prompt(at.Add(time.Second), time.Now())
	require.NoError(w.t, inner.Context().Err(), "the reader goes on")
	return inner
}

func writerFirstCut(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	inner := w.pendingDowngrade(a)
	reader, writer := b.queueFor(w.soon(), reading), b.queueFor(w.soon(), writing)
	w.wait("the fault is in effect: the entry is a writer's", reader, writer)
	a.net.Heal()
	reader.granted()

	require.NoError(w.t, inner.Context().Err())
	w.unlock(reader.Hold)
	w.wait("the first one still reads", writer)
	w.unlock(inner)
	w.unlock(writer.granted())
}

// pendingDowngradeReleased: a downgrade that the session repeats has no effect once the last
// handle was unlocked. No attempt changes a later entry, though it often has the same key.
func pendingDowngradeReleased(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	inner := w.pendingDowngrade(a)
	require.ErrorIs(w.t, inner.Unlock(), session.ErrReleasePending)
	a.net.Heal()
	w.eventually(0, "the release is finished")
	h := a.holds(writing)
	reader := b.queueFor(w.soon(), reading)

	w.wait("a writer holds", reader)
	held := b.nth(0)
	assert.False(w.t, held.Shares())
	w.unlock(h)
	w.unlock(reader.granted())
}

func readerFirst(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	outer := a.holds(writing)
	reader := b.queueFor(w.soon(), reading)
	inner := a.inside(outer)
	a.sends(0, "a reader inside that ends first", func() { w.unlock(inner) })

	w.wait("the writer still holds", reader)
	require.NoError(w.t, outer.Context().Err())
	held := b.nth(0)
	assert.False(w.t, held.Shares())
	w.unlock(outer)
	w.unlock(reader.granted())
}

func lockInside(w *Fixture) {
	p := w.Client("p")
	rw := rwlock.New(p.Session, name)
	for _, want := range []locking{reading, writing} {
		h := p.holds(want)
		_, err := rw.Lock(h.Context())
		require.ErrorIs(w.t, err, session.ErrReentrant)
		_, err = rw.TryLock(h.Context())
		require.ErrorIs(w.t, err, session.ErrReentrant)
		_, err = lock(h.Context(), p.Session)
		require.ErrorIs(w.t, err, session.ErrReentrant, "a mutex of that name has the same queue")
		h2, err := rw.TryRLock(h.Context())
		require.NoError(w.t, err)
		_, err = rw.Lock(h2.Context())
		require.ErrorIs(w.t, err, session.ErrReentrant)
		w.unlock(h2)
		w.unlock(h)
	}
	h, err := lock(w.soon(), p.Session)
	require.NoError(w.t, err)
	<-p.joined
	_, err = rw.RLock(h.Context())
	require.ErrorIs(w.t, err, session.ErrReentrant, "a mutex of that name admits no reader")
	w.unlock(h)
}

func downgradeInside(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	outer := a.holds(writing)
	inner := a.inside(outer)
	require.ErrorIs(w.t, rwlock.New(a.Session, name).Downgrade(w.soon(), inner), session.ErrNotWriter)
	a.downgrade(outer)
	h := b.holds(reading)
	writer := b.queueFor(w.soon(), writing)
	w.unlock(h)
	w.unlock(outer)
	w.wait("one is still inside", writer)
	w.unlock(inner)
	w.unlock(writer.granted())
}

func lossInside(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	outer := a.holds(writing)
	inner := a.inside(outer)
	b.queueFor(w.soon(), passing(reading)) // with a waiter behind, the holder is watched at once
	x, y := endOf(outer), endOf(inner)
	w.svc.Expire(w.t, outer.SessionID())
	w.when(x)
	w.when(y)
	require.ErrorIs(w.t, outer.Unlock(), session.ErrLost)
	require.ErrorIs(w.t, inner.Unlock(), session.ErrLost)
}

// bothAtOnce: the writer's handle would be downgraded for the reader's, which is released
// at the same time.
func bothAtOnce(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	for range 30 {
		outer := a.holds(writing)
		next := b.queueFor(w.soon(), writing)
		inner := a.inside(outer)
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.unlock(inner)
		}()
		w.unlock(outer)
		<-done
		w.unlock(next.granted())
	}
}

// enterRacingUnlock: goroutines that enter a hold while it is unlocked get one more
// handle on it, or none. When all have unlocked what they got, another session gets
// the lock.
func enterRacingUnlock(w *Fixture, lock locking) {
	const inside = 8
	rounds := 50
	if w.h.Virtual {
		rounds = 500
	}
	a, b := w.Client("a"), w.Client("b")
	for range rounds {
		h, err := lock(w.soon(), a.Session)
		require.NoError(w.t, err)
		var all sync.WaitGroup
		begin := make(chan struct{})
		for range inside {
			all.Go(func() {
				<-begin
				if h2, err := lock(h.Context(), a.Session); err == nil {
					_ = h2.Unlock() // nil, or the release is pending
				}
			})
		}
		all.Go(func() {
			<-begin
			_ = h.Unlock()
		})
		close(begin)
		all.Wait()
		next, err := mutex.New(b.Session, name).Lock(w.soon())
		require.NoError(w.t, err, "every handle is unlocked")
		w.unlock(next)
	}
}

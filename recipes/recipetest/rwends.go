package recipetest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// readWriteEnds are the stories of readers and writers who do not wait to the end.
func readWriteEnds() []story {
	return []story{
		{"CancelledWriterLetsTheReadersBehindPass", cancelledWriter},
		{"CancelledWritersLetTheReaderBehindPassInTheEnd", cancelledWriters},
		{"TryRLockBesideReaders", tryBesideReaders},
		{"TryRLockBehindAWriterWritesNothing", tryBehindWriter},
		{"TryOnAnEmptyLineHolds", tryOnEmpty},
	}
}

func cancelledWriter(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	first := a.holds(reading)
	ctx, cancel := context.WithCancel(w.soon())
	writer := b.queueFor(ctx, writing)
	later := []*Request{a.queueFor(w.soon(), reading), c.queueFor(w.soon(), reading), b.queueFor(w.soon(), reading)}
	behind := c.queueFor(w.soon(), writing)
	w.wait("a writer came first", later...)
	cancel()
	writer.returned()
	require.ErrorIs(w.t, writer.Err, context.Canceled)
	for _, r := range later {
		r.granted() // beside the first, which still holds
	}
	w.wait("readers hold", behind)
	w.unlock(first)
	for _, r := range later {
		w.unlock(r.Hold)
	}
	w.unlock(behind.granted())
}

func cancelledWriters(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		first := a.holds(reading)
		cancels := make([]context.CancelFunc, 3)
		writers := make([]*Request, 3)
		for i, p := range []*Client{a, b, b} {
			ctx, cancel := context.WithCancel(w.soon())
			cancels[i], writers[i] = cancel, p.queueFor(ctx, writing)
		}
		reader := c.queueFor(w.soon(), reading)
		for _, j := range order {
			w.wait("a writer is ahead", reader)
			cancels[j]()
			writers[j].returned()
		}
		w.unlock(reader.granted())
		w.unlock(first)
	}
}

func tryBesideReaders(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	first := a.holds(reading)
	for _, p := range []*Client{a, b} {
		h, err := rwlock.New(p.Session, name).TryRLock(w.soon())
		require.NoError(w.t, err)
		<-p.joined
		require.Equal(w.t, 2, w.svc.Count(w.t, name))
		_, err = rwlock.New(p.Session, name).TryLock(w.soon())
		require.ErrorIs(w.t, err, session.ErrNotAcquired)
		require.Equal(w.t, 2, w.svc.Count(w.t, name))
		w.unlock(h)
	}
	w.unlock(first)
}

// tryBehindWriter: a writer that waits is as good as one that holds.
func tryBehindWriter(w *Fixture) {
	a, b := w.Client("nightly"), w.Client("b")
	first := a.holds(reading)
	writer := a.queueFor(w.soon(), writing)
	refused := func(why string) {
		w.t.Helper()
		before := a.entries()
		_, err := rwlock.New(b.Session, name).TryRLock(w.soon())
		require.ErrorIs(w.t, err, session.ErrNotAcquired, why)
		assert.Contains(w.t, err.Error(), "(nightly)", "it names who is first")
		assert.Equal(w.t, before, a.entries(), why)
		assert.Empty(w.t, b.joined, "nothing was written")
	}
	refused("a writer waits")
	w.unlock(first)
	h := writer.granted()
	refused("a writer holds")
	w.unlock(h)
}

func tryOnEmpty(w *Fixture) {
	p := w.Client("p")
	for _, try := range []func(context.Context) (*session.Hold, error){
		rwlock.New(p.Session, name).TryRLock, rwlock.New(p.Session, name).TryLock,
	} {
		lock := func() *session.Hold {
			h, err := try(w.soon())
			require.NoError(w.t, err)
			return h
		}
		w.unlock(lock())
		if w.h.Try <= 1 { // elsewhere IfEmpty needs more
			p.costsTwo(lock)
		}
	}
}

package recipetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// readWriteEnds are the cases of readers and writers that give up, or only try.
func readWriteEnds() []testCase {
	return []testCase{
		{"CancelledWriterGrantsTheReadersBehind", cancelledWriter},
		{"TheLastCancelledWriterGrantsTheReaderBehind", cancelledWriters},
		{"TryRLockHoldsWithOtherReaders", tryWithReaders},
		{"TryRLockBehindAWriterWritesNothing", tryBehindWriter},
		{"TryOnAnEmptyQueueHolds", tryOnEmpty},
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
		r.granted() // while the first still holds
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

func tryWithReaders(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	first := a.holds(reading)
	for _, p := range []*Client{a, b} {
		h, err := w.try(rwlock.New(p.Session, name).TryRLock)
		require.NoError(w.t, err)
		<-p.joined
		require.Equal(w.t, 2, w.svc.Count(w.t, name))
		_, err = w.try(rwlock.New(p.Session, name).TryLock)
		require.ErrorIs(w.t, err, session.ErrNotAcquired)
		require.Equal(w.t, 2, w.svc.Count(w.t, name))
		w.unlock(h)
	}
	w.unlock(first)
}

// tryBehindWriter: a writer that waits excludes readers as a holder does.
func tryBehindWriter(w *Fixture) {
	a, b := w.Client("nightly"), w.Client("b")
	first := a.holds(reading)
	writer := a.queueFor(w.soon(), writing)
	refused := func(why string) {
		w.t.Helper()
		before := refsOf(a.entries())
		_, err := w.try(rwlock.New(b.Session, name).TryRLock)
		require.ErrorIs(w.t, err, session.ErrNotAcquired, why)
		assert.Contains(w.t, err.Error(), "(nightly)", "it names the first entry")
		assert.Equal(w.t, before, refsOf(a.entries()), why)
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
			h, err := w.try(try)
			require.NoError(w.t, err)
			return h
		}
		w.unlock(lock())
		if w.h.Try <= 1 { // elsewhere IfEmpty needs more
			p.costsTwo(lock)
		}
	}
}

// readerLosses are the cases of readers and writers that are lost.
func readerLosses() []testCase {
	return []testCase{
		{"WriterCutOffIsLostBeforeTheReadersAreGranted", writerCutOff},
		{"ReaderCutOffIsLostBeforeTheWriterIsGranted", readerCutOff},
		{"DeletedReaderIsNotifiedAndTheOthersHold", deletedReader},
		{"DeletedWaitingReaderThenReleaseGrantsOneAtATime", deletedWaitingReader},
		{"DeletedWaitingWriterGrantsTheReadersBehind", deletedWaitingWriter},
		{"WaitingReaderCutOffReturnsWithItsContext", func(w *Fixture) { cutWaiter(w, writing, reading) }},
	}
}

// endsBefore checks that the context of the hold ended before the requests were granted,
// and returns their holds.
func (w *Fixture) endsBefore(h *session.Hold, x *ending, rs ...*Request) []*session.Hold {
	w.t.Helper()
	var holds []*session.Hold
	for _, r := range rs {
		holds = append(holds, r.granted())
		valid := h.Remaining()
		assert.Zero(w.t, valid)
		assert.Greater(w.t, r.Hold.Token(), h.Token())
	}
	at := w.when(x)
	for _, r := range rs {
		w.lostFirst(at, r.at)
	}
	require.ErrorIs(w.t, context.Cause(h.Context()), session.ErrLost)
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	return holds
}

func writerCutOff(w *Fixture) {
	a, b, c := w.mortal("a"), w.Client("b"), w.Client("c")
	h := a.holds(writing)
	x := endOf(h)
	readers := []*Request{b.queueFor(w.soon(), reading), c.queueFor(w.soon(), reading), b.queueFor(w.soon(), reading)}
	last := c.queueFor(w.soon(), writing)
	a.net.Cut(fault.Both)
	holds := w.endsBefore(h, x, readers...)
	w.wait("readers hold", last)
	a.net.Heal()
	for _, h := range holds {
		require.NoError(w.t, h.Context().Err())
		w.unlock(h)
	}
	w.unlock(last.granted())
}

func readerCutOff(w *Fixture) {
	a, b, c := w.mortal("a"), w.Client("b"), w.Client("c")
	h, other := a.holds(reading), b.holds(reading)
	x := endOf(h)
	writer := c.queueFor(w.soon(), writing)
	a.net.Cut(fault.Both)
	w.when(x)
	w.eventually(2, "the service has given the reader up")
	w.wait("the other reader holds", writer)
	require.NoError(w.t, other.Context().Err())
	w.unlock(other)
	holds := w.endsBefore(h, x, writer)
	a.net.Heal()
	w.unlock(holds[0])
}

func deletedReader(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h, other := a.holds(reading), b.holds(reading)
	x := endOf(h)
	writer := b.queueFor(w.soon(), writing)
	w.wait("readers hold", writer) // and holds that last are watched by now, in real time too
	time.Sleep(wrongly)
	w.svc.Delete(w.t, Refs(h)[0])
	w.when(x)

	w.lostFor(session.ReasonDeleted, cause(h))
	w.wait("the other reader holds", writer)
	require.NoError(w.t, other.Context().Err())
	w.unlock(other)
	w.unlock(writer.granted())
}

func deletedWaitingReader(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	for _, p := range []*Client{a, b} { // of the holder's session too
		for range 5 {
			h := a.holds(writing)
			reader := p.queueFor(w.soon(), reading)
			next := c.queueFor(w.soon(), writing)
			w.svc.Delete(w.t, a.nth(1).Ref)
			<-p.joined
			w.unlock(h)
			h = next.granted()
			w.wait("a writer holds", reader)
			w.unlock(h)
			require.Greater(w.t, reader.granted().Token(), h.Token(), "it joined again at the end of the queue")
			w.unlock(reader.Hold)
		}
	}
}

func deletedWaitingWriter(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	for _, p := range []*Client{a, b} { // of the readers' session too
		for range 5 {
			first := a.holds(reading)
			writer := p.queueFor(w.soon(), writing)
			later := []*Request{c.queueFor(w.soon(), reading), a.queueFor(w.soon(), reading)}
			w.svc.Delete(w.t, a.nth(1).Ref)
			for _, r := range later {
				r.granted()
			}
			again := <-p.joined
			w.wait("readers hold", writer)
			w.unlock(first)
			for _, r := range later {
				w.unlock(r.Hold)
				require.Greater(w.t, again, r.token, "the writer joined again at the end of the queue")
			}
			w.unlock(writer.granted())
		}
	}
}

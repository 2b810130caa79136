package recipetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// readWrites are the cases of readers and writers in one queue.
func readWrites() []testCase {
	return []testCase{
		{"MixedQueueIsGrantedInOrder", mixedInOrder},
		{"ReadersDoNotStarveWriters", func(w *Fixture) { noneStarves(w, reading, writing) }},
		{"WritersDoNotStarveReaders", func(w *Fixture) { noneStarves(w, writing, reading) }},
		{"WriterHoldsWhenTheLastReaderIsGone", lastReaderGone},
		{"ReadersAndWritersByTheHundredExcludeEachOther", mixedByTheHundred},
	}
}

// locking is a request for some lock.
type locking = func(context.Context, *session.Session) (*session.Hold, error)

// reading and writing request the lock of a reader and of a writer.
func reading(ctx context.Context, s *session.Session) (*session.Hold, error) {
	return rwlock.New(s, name).RLock(ctx)
}

func writing(ctx context.Context, s *session.Session) (*session.Hold, error) {
	return rwlock.New(s, name).Lock(ctx)
}

// holds acquires a lock, and ends the case if it cannot.
func (p *Client) holds(want locking) *session.Hold {
	p.w.t.Helper()
	return p.queueFor(p.w.soon(), want).granted()
}

// wait checks that none of the requests is granted, after the time that a wrong grant
// would take.
func (w *Fixture) wait(why string, rs ...*Request) {
	w.t.Helper()
	time.Sleep(wrongly)
	for i, r := range rs {
		require.True(w.t, r.waiting(), "request %d: %s", i, why)
	}
}

// mixedInOrder walks down a queue: neighbouring readers hold together, and the requests
// behind them are granted only when all of them have released.
func mixedInOrder(w *Fixture) {
	ps := w.clients(4)
	modes := "rrwrwwrrrwrw"
	waits := make([]*Request, len(modes))
	h := ps[0].holds(writing)
	for i, m := range modes {
		want := reading
		if m == 'w' {
			want = writing
		}
		waits[i] = ps[i*i%len(ps)].queueFor(w.soon(), want)
	}
	before := h.Token()
	w.unlock(h)
	for from := 0; from < len(modes); {
		upto := from + 1
		for modes[from] == 'r' && modes[upto] == 'r' {
			upto++
		}
		for i, r := range waits[from:upto] {
			h := r.granted()
			assert.Equal(w.t, r.token, h.Token(), "request %d kept its place", from+i)
			assert.Greater(w.t, h.Token(), before, "request %d", from+i)
			before = h.Token()
		}
		for i, j := range rand.Perm(upto - from) {
			if i == upto-from-1 {
				w.wait("a request ahead still holds", waits[upto:]...)
			}
			w.unlock(waits[from+j].Hold)
		}
		from = upto
	}
}

// noneStarves: at every moment a request of the first kind holds or waits, and a request
// of the second kind is granted all the same.
func noneStarves(w *Fixture, first, second locking) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(first)
	for range 5 {
		between := b.queueFor(w.soon(), second)
		next := a.queueFor(w.soon(), first) // before the last one goes
		w.wait("a holder is ahead, and a request of the other kind between", between, next)
		w.unlock(h)
		h = between.granted()
		w.wait("the other kind holds", next)
		w.unlock(h)
		h = next.granted()
	}
	w.unlock(h)
}

func lastReaderGone(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	orders := [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}}
	for _, order := range orders {
		var readers []*session.Hold
		for _, p := range []*Client{a, b, a, c} {
			readers = append(readers, p.holds(reading))
		}
		writer := b.queueFor(w.soon(), writing)
		for i, j := range order {
			w.wait(fmt.Sprint("readers are left, in the order ", order), writer)
			require.NoError(w.t, readers[j].Context().Err())
			w.unlock(readers[j])
			if i == len(order)-1 {
				w.unlock(writer.granted())
			}
		}
	}
}

// mixedByTheHundred: a reader writes a variable of its own, and a writer reads them all
// and writes another one, which all readers read. Nothing else orders them: the race
// detector checks exclusion.
func mixedByTheHundred(w *Fixture) {
	const times = 3
	n := w.many(200)
	ps := w.clients(4)
	written, read := []session.Token{0}, make([]session.Token, n)
	done := make(chan struct{})
	for i := range n {
		rw := rwlock.New(ps[i%len(ps)].Session, name)
		go func() {
			defer func() { done <- struct{}{} }()
			for j := range times {
				var err error
				if (i/len(ps)+j)%3 == 0 {
					err = rw.Do(w.soon(), func(_ context.Context, h *session.Hold) error {
						assert.Greater(w.t, h.Token(), slices.Max(read), "a writer is above all readers before it")
						written = append(written, h.Token())
						return nil
					})
				} else {
					err = rw.RDo(w.soon(), func(_ context.Context, h *session.Hold) error {
						assert.Greater(w.t, h.Token(), written[len(written)-1], "a reader is above all writers before it")
						read[i] = h.Token()
						return nil
					})
				}
				if !w.released(err) {
					return
				}
			}
		}()
	}
	for range n {
		<-done
	}

	assert.Len(w.t, written, 1+n)
	assert.IsIncreasing(w.t, written)
}

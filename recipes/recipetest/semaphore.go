package recipetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// semaphores are the cases of permits without faults.
func semaphores() []testCase {
	return []testCase{
		{"PermitsAreGrantedInOrderAndNoneOvertakesALargeRequest", permitsInOrder},
		{"ARequestGetsAllItsPermitsOrNone", permitsAllOrNothing},
		{"AReleaseGrantsEveryRequestThatFits", permitsAdmitMany},
		{"TryAcquireTakesWhatIsFreeAndOvertakesNone", permitsTry},
		{"PermitsOfBadRequestsSendNothing", permitsBad},
		{"AcquireUnderAnOwnAcquireIsReentrant", permitsReentrant},
		{"QueueShowsPermitsAndWhichEntriesHold", permitsQueue},
	}
}

// wanting is a request for n permits of a semaphore with that limit.
func wanting(n, limit int64) locking {
	return func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return semaphore.New(s, name, limit).Acquire(ctx, n)
	}
}

// take acquires permits that are free, and ends the case if it cannot.
func (p *Client) take(n, limit int64) *session.Hold {
	p.w.t.Helper()
	h := p.startFor(p.w.soon(), wanting(n, limit)).granted()
	<-p.joined
	return h
}

// wait requests permits that are not free, and returns when the request has a place in
// the queue.
func (p *Client) wait(n, limit int64) *Request {
	p.w.t.Helper()
	return p.queueFor(p.w.soon(), wanting(n, limit))
}

// still checks for a while that none of the requests returns.
func (w *Fixture) still(why string, rs ...*Request) {
	w.t.Helper()
	for range 10 {
		time.Sleep(w.short / 500) // no event shows that something does not happen
		for i, r := range rs {
			require.True(w.t, r.waiting(), "request %d: %s", i, why)
		}
	}
}

// woken returns the hold of a request that an event has woken.
func (r *Request) woken() *session.Hold {
	r.c.w.t.Helper()
	r.c.w.woken(r.Done, "an event that wakes it")
	return r.granted()
}

// woken waits for what an event must bring, for less than the time after which a waiter reads
// without one: that is three quarters of the TTL, or of ten seconds if that is more.
func (w *Fixture) woken(done <-chan struct{}, what string) {
	w.t.Helper()
	within(w.t, max(w.h.TTL, 10*time.Second)*3/5, done, what)
}

func permitsInOrder(w *Fixture) {
	const limit = 4
	ps := w.clients(6)
	first := ps[0].take(3, limit)
	large := ps[1].wait(4, limit)
	small, middle, rest := ps[2].wait(1, limit), ps[3].wait(2, limit), ps[4].wait(2, limit)
	w.still("one permit is free, and a large request came first", large, small, middle, rest)
	w.unlock(first)
	all := large.woken()
	require.Equal(w.t, large.token, all.Token(), "it kept its place")
	w.still("a large request has all", small, middle, rest)
	last := ps[5].wait(1, limit)
	w.unlock(all)
	one, two := small.woken(), middle.woken()
	assert.Less(w.t, one.Token(), two.Token())
	w.still("one is free, and the next wants two", rest, last)
	w.unlock(two)
	tail := []*session.Hold{one, rest.woken(), last.woken()}
	for _, h := range tail {
		w.unlock(h)
	}
}

func permitsAllOrNothing(w *Fixture) {
	const limit = 3
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.take(2, limit)
	ctx, cancel := context.WithCancel(w.soon())
	two := b.queueFor(ctx, wanting(2, limit))
	_, err := w.tryFor(semaphore.New(c.Session, name, limit), 1)
	require.ErrorIs(w.t, err, session.ErrNotAcquired, "it would overtake")
	w.still("one is free", two)
	cancel()
	two.returned()
	require.ErrorIs(w.t, two.Err, context.Canceled)
	w.eventually(1, "the request has left")
	one, err := w.tryFor(semaphore.New(c.Session, name, limit), 1)

	require.NoError(w.t, err, "the one that was free is free")
	w.unlock(one)
	w.unlock(h)
}

func permitsAdmitMany(w *Fixture) {
	const limit = 5
	ps := w.clients(7)
	h := ps[0].take(limit, limit)
	var waits []*Request
	for _, p := range ps[1:] {
		waits = append(waits, p.wait(1, limit))
	}
	w.unlock(h)
	var holds []*session.Hold
	for i, r := range waits[:limit] {
		holds = append(holds, r.woken())
		assert.Equal(w.t, r.token, holds[i].Token())
	}
	w.still("all are taken", waits[limit])
	w.unlock(holds[2]) // any holder may release
	w.unlock(waits[limit].woken())
	for i, h := range holds {
		if i != 2 {
			w.unlock(h)
		}
	}
}

func permitsTry(w *Fixture) {
	const limit = 3
	a, b := w.Client("nightly"), w.Client("b")
	mine := semaphore.New(b.Session, name, limit)
	h := a.take(2, limit)
	second, err := w.tryFor(mine, 1)
	require.NoError(w.t, err, "it fits next to the other")
	<-b.joined
	before := a.entries()
	_, err = w.tryFor(mine, 1)
	require.ErrorIs(w.t, err, session.ErrNotAcquired)
	var na *session.NotAcquiredError
	require.ErrorAs(w.t, err, &na)
	assert.Equal(w.t, Refs(h)[0], Detail(na.Holder).Ref)
	assert.Contains(w.t, err.Error(), "(nightly)", "it names the first entry")
	assert.Equal(w.t, len(before), len(a.entries()), "it has written nothing")
	w.unlock(second)

	large := b.wait(2, limit)
	_, err = w.tryFor(semaphore.New(a.Session, name, limit), 1)
	require.ErrorIs(w.t, err, session.ErrNotAcquired, "one is free, but a request waits")
	w.unlock(h)
	w.unlock(large.woken())
}

func permitsBad(w *Fixture) {
	p := w.Client("p")
	sent := p.net.Requests()
	for _, c := range []struct {
		n, limit int64
		want     error
	}{
		{0, 3, session.ErrWeight},
		{-1, 3, session.ErrWeight},
		{4, 3, session.ErrWeight},
		{1, 0, session.ErrInvalidOptions},
		{1, -7, session.ErrInvalidOptions},
		{1, semaphore.MaxLimit + 1, session.ErrInvalidOptions},
	} {
		m := semaphore.New(p.Session, name, c.limit)
		_, err := m.Acquire(w.soon(), c.n)
		require.ErrorIs(w.t, err, c.want, "%d of %d", c.n, c.limit)
		_, err = m.TryAcquire(w.soon(), c.n)
		require.ErrorIs(w.t, err, c.want, "%d of %d", c.n, c.limit)
		err = m.Do(w.soon(), c.n, func(context.Context, *session.Hold) error { panic("it runs") })
		require.ErrorIs(w.t, err, c.want, "%d of %d", c.n, c.limit)
	}
	for _, limit := range []int64{0, -1, semaphore.MaxLimit + 1} {
		require.ErrorIs(w.t, semaphore.New(p.Session, name, 3).Resize(w.soon(), limit), session.ErrInvalidOptions)
	}
	_, err := semaphore.New(p.Session, "", 3).Acquire(w.soon(), 1)
	require.ErrorIs(w.t, err, session.ErrInvalidName)
	require.ErrorIs(w.t, semaphore.New(p.Session, "", 3).Resize(w.soon(), 1), session.ErrInvalidName)
	_, err = semaphore.New(p.Session, "", 3).Limit(w.soon())
	require.ErrorIs(w.t, err, session.ErrInvalidName)

	p.silentSince(sent)
}

func permitsReentrant(w *Fixture) {
	p := w.Client("p")
	m := semaphore.New(p.Session, name, 3)
	err := m.Do(w.soon(), 1, func(ctx context.Context, _ *session.Hold) error {
		_, err := m.Acquire(ctx, 1)
		require.ErrorIs(w.t, err, session.ErrReentrant)
		_, err = m.TryAcquire(ctx, 1)
		require.ErrorIs(w.t, err, session.ErrReentrant)
		return semaphore.New(p.Session, "scarce", 1).Do(ctx, 1, func(ctx context.Context, _ *session.Hold) error {
			_, err := m.Acquire(ctx, 1)
			require.ErrorIs(w.t, err, session.ErrReentrant, "through another's context")
			return nil
		})
	})
	w.released(err)
}

func permitsQueue(w *Fixture) {
	const limit = 5
	a, b, c := w.Client("first"), w.Client("second"), w.Client("third")
	one := a.take(2, limit)
	two := b.take(3, limit) // it was not alone, so it marks its entry as admitted
	waits := c.wait(4, limit)
	w.until("the holders have marked their entries", func() bool {
		entries := a.entries()
		return len(entries) == 3 && entries[0].Marks.Has(driver.MarkAdmitted) && entries[1].Marks.Has(driver.MarkAdmitted)
	})
	entries, err := semaphore.New(a.Session, name, limit).Queue(w.soon())
	require.NoError(w.t, err)
	require.Len(w.t, entries, 3)
	for i, want := range []struct {
		label  string
		weight int64
		token  session.Token
	}{{"first", 2, one.Token()}, {"second", 3, two.Token()}, {"third", 4, waits.token}} {
		e := entries[i]
		assert.Equal(w.t, want.label, e.Label)
		assert.Equal(w.t, "semaphore", e.Kind)
		assert.Equal(w.t, session.Weighted, e.Mode)
		assert.Equal(w.t, []session.State{session.Holder, session.Holder, session.Waiter}[i], e.State)
		assert.Equal(w.t, want.weight, e.Weight)
		assert.EqualValues(w.t, want.token, e.Token)
	}
	assert.Zero(w.t, Detail(entries[2]).Marks)
	names, err := a.Names(w.soon(), "")
	require.NoError(w.t, err)
	assert.Equal(w.t, []string{name}, names)
	w.unlock(one)
	w.unlock(two)
	w.unlock(waits.woken())
}

// until waits until a condition holds.
func (w *Fixture) until(why string, so func() bool) {
	w.t.Helper()
	poll(w.t, w.timeout(), w.short/100, why, so)
}

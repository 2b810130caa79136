package recipetest

import (
	"context"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// semaphoreLimits are the cases of limits.
func semaphoreLimits() []testCase {
	return slices.Concat(
		[]testCase{
			{"AnotherLimitIsAMismatchThatNamesBoth", limitMismatch},
			{"FollowTakesTheLimitThatIsThere", limitFollowed},
			{"ResizeUpGrantsAtOnceAllThatFit", resizeUp},
			{"ResizeDownTakesNothingAndGrantsNothingTooEarly", resizeDown},
			{"AWaiterForMoreThanTheLimitLeaves", resizeBelow},
			{"AResizeDuringACutIsNoticed", resizeCut},
		},
		over("AResizeWith%vIsDoneOnce", fault.Retryable(), resizeFault),
	)
}

// following is a request for n permits under the limit that the queue has; a new queue
// gets limit.
func following(n, limit int64) locking {
	return func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return semaphore.NewWith(s, name, limit, semaphore.Options{Follow: true}).Acquire(ctx, n)
	}
}

// resize gives the queue another limit, or ends the case.
func (p *Client) resize(limit int64) {
	p.w.t.Helper()
	require.NoError(p.w.t, semaphore.New(p.Session, name, 1).Resize(p.w.soon(), limit), "resize")
}

func limitMismatch(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	check := func(err error) {
		w.t.Helper()
		require.ErrorIs(w.t, err, session.ErrLimitMismatch)
		assert.Contains(w.t, err.Error(), "has 3")
		assert.Contains(w.t, err.Error(), "gave 5")
	}
	other := semaphore.New(b.Session, name, 5)
	limit, err := other.Limit(w.soon())
	require.NoError(w.t, err)
	assert.Zero(w.t, limit, "the queue was never used")
	h := a.take(3, 3)
	limit, err = other.Limit(w.soon())
	require.NoError(w.t, err)
	assert.EqualValues(w.t, 3, limit)
	for range 2 { // the second time the queue is empty, and the limit stays
		_, err = other.Acquire(w.soon(), 1)
		check(err)
		_, err = w.tryFor(other, 1)
		check(err)
		if h.Remaining() > 0 {
			w.eventually(1, "it has left nothing")
			w.unlock(h)
		}
	}
	w.eventually(0, "it has left nothing")
	w.unlock(b.take(3, 3))
}

func limitFollowed(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.take(2, 3)
	second := b.startFor(w.soon(), following(1, 100)).granted()
	<-b.joined
	r := b.queueFor(w.soon(), following(1, 1))
	w.still("all three are taken, whatever limit it gave", r)
	_, err := following(4, 100)(w.soon(), b.Session)
	require.ErrorIs(w.t, err, session.ErrWeight)
	require.ErrorContains(w.t, err, "3", "it names the limit")
	w.eventually(3, "it has left nothing")
	w.unlock(h)
	w.unlock(r.woken())
	w.unlock(second)
}

func resizeUp(w *Fixture) {
	ps := w.clients(7)
	h := ps[0].take(2, 2)
	waits := []*Request{ps[1].wait(1, 2), ps[2].wait(2, 2), ps[3].wait(2, 2), ps[4].wait(1, 2), ps[5].wait(1, 2)}
	w.still("all are taken", waits...)
	ps[6].resize(5)
	holds := []*session.Hold{h, waits[0].woken(), waits[1].woken()}
	w.still("none is free", waits[2:]...)
	ps[6].resize(9)
	for _, r := range waits[2:] {
		holds = append(holds, r.woken())
	}
	last := ps[6].queueFor(w.soon(), following(1, 1))
	w.still("none is free", last)
	for _, h := range holds {
		w.unlock(h)
	}
	w.unlock(last.woken())
}

func resizeDown(w *Fixture) {
	ps := w.clients(6)
	var holds []*session.Hold
	for _, p := range ps[:4] {
		holds = append(holds, p.take(1, 4))
	}
	m := semaphore.New(ps[5].Session, name, 4)
	require.NoError(w.t, m.Resize(w.soon(), 2))
	r := ps[4].queueFor(w.soon(), following(1, 4))
	for i, h := range holds {
		require.NoError(w.t, h.Context().Err(), "holders keep theirs")
		if i == 3 {
			break
		}
		w.still("four hold, and there are two", r)
		_, err := w.tryFor(m, 1) // it knows the limit that it has set
		require.ErrorIs(w.t, err, session.ErrNotAcquired)
		w.unlock(h)
	}
	next := r.woken()
	_, err := w.tryFor(m, 1)
	require.ErrorIs(w.t, err, session.ErrNotAcquired, "two hold")
	w.unlock(holds[3])
	w.unlock(next)
}

func resizeBelow(w *Fixture) {
	ps := w.clients(5)
	h := ps[0].take(2, 4)
	behind := ps[1].wait(4, 4)
	one, three := ps[2].wait(1, 4), ps[3].wait(3, 4)
	w.still("the first of them wants all", behind, one, three)
	ps[4].resize(3)
	behind.returned()
	require.ErrorIs(w.t, behind.Err, session.ErrWeight)
	require.ErrorContains(w.t, behind.Err, "limit is 3")
	second := one.woken() // the large request blocks it no longer

	w.eventually(3, "it has left")
	ps[4].resize(2)
	three.returned()
	require.ErrorIs(w.t, three.Err, session.ErrWeight)
	w.unlock(h)
	w.unlock(second)
}

// resizeCut: a waiter that a cut keeps from the event of a new limit acts on it after the cut.
func resizeCut(w *Fixture) {
	for _, d := range fault.Directions() {
		a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
		c.resize(2)
		h := a.take(2, 2)
		r := b.wait(1, 2)
		b.net.Cut(d)
		c.resize(3)
		w.still("no event of it can have come", r)
		b.net.Heal()
		w.unlock(r.granted())
		w.unlock(h)
		w.eventually(0, "nothing is left")
	}
}

func resizeFault(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	h := a.take(2, 2)
	r := b.wait(1, 2)
	m := semaphore.New(a.Session, name, 2)
	a.net.Inject(fault.Update, f)
	require.NoError(w.t, m.Resize(w.soon(), 3))
	limit, err := m.Limit(w.soon())
	require.NoError(w.t, err)
	assert.EqualValues(w.t, 3, limit)
	w.unlock(r.granted())
	w.unlock(h)
	h, err = w.tryFor(m, 3) // under its new limit
	require.NoError(w.t, err)
	w.unlock(h)
}

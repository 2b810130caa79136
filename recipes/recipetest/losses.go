package recipetest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
)

// losses are the stories of entries and sessions that somebody else ends while
// the network is well.
func losses() []story {
	return []story{
		{"DeletedHolderIsToldAtOnce", deletedHolder},
		{"HolderOfARevokedSessionIsToldAtOnce", revokedHolder},
		{"DeletedWaiterThenReleaseGrantsNobodyTwice", func(w *Fixture) {
			ps := w.clients(3)
			deletedWaiter(w, ps[0], ps[1], ps[2], lock)
		}},
		{"DeletedWaiterOfTheSameSessionIsGrantedNothing", func(w *Fixture) {
			p := w.Client("p")
			deletedWaiter(w, p, p, p, lock)
		}},
		{"WaiterOfARevokedSessionJoinsAgain", revokedWaiter},
		{"WaiterBehindAHolderOfItsOwnRevokedSessionIsNotGranted", revokedTogether},
	}
}

// holdLong holds until the service has been asked to watch the entry. A hold
// that lasts only a moment is not watched.
func (w *Fixture) holdLong(p *Client) *session.Hold {
	h := p.hold()
	p.queueFor(w.soon(), passing(lock))
	w.eventually(2, "both stand in the line")
	return h
}

// passing is a request that releases at once what it is granted. While it waits, the
// holder ahead is watched.
func passing(want locking) locking {
	return func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		h, err := want(ctx, s)
		if err == nil {
			_ = h.Unlock() // nil, or the session ends
		}
		return h, err
	}
}

func deletedHolder(w *Fixture) {
	p := w.Client("p")
	h := w.holdLong(p)
	x := tell(h)
	w.svc.Delete(w.t, h.Refs()[0])
	w.evicted(h, x)
}

func revokedHolder(w *Fixture) {
	p := w.Client("p")
	h := w.holdLong(p)
	id := p.entries()[0].Session
	x := tell(h)
	w.svc.Expire(w.t, id)
	w.when(x)

	require.ErrorIs(w.t, context.Cause(h.Context()), session.ErrLost)
	assert.Zero(w.t, h.Valid())
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
}

// deletedWaiter deletes the entry between a holder, who then releases, and a request.
func deletedWaiter(w *Fixture, a, b, c *Client, want locking) {
	for range 10 {
		h := a.holds(want)
		second, third := b.queueFor(w.soon(), want), c.queueFor(w.soon(), want)
		w.deletePlace(a, name, second.token)
		w.unlock(h)
		w.onlyOne(second, third)
		<-b.joined
	}
}

// onlyOne checks that the third is granted, and the second, whose entry was
// deleted, only after it, from its new place.
func (w *Fixture) onlyOne(second, third *Request) {
	w.t.Helper()
	h3 := third.granted()
	require.True(w.t, second.waiting(), "two hold at once")
	w.unlock(h3)
	h2 := second.granted()
	require.Greater(w.t, h2.Token(), h3.Token(), "it went to the end of the line")
	w.unlock(h2)
}

func revokedWaiter(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	r := b.queue(w.soon())
	w.svc.Expire(w.t, a.entries()[1].Session)
	again := <-b.joined
	require.Greater(w.t, again, r.token)
	require.True(w.t, r.waiting())
	w.unlock(h)

	assert.Equal(w.t, again, r.granted().Token())
	w.unlock(r.Hold)
	assert.Len(w.t, b.Rejoined(), 1)
}

// revokedTogether: with the holder's entry goes that of the waiter behind it, and
// the news of the one comes before that of the other.
func revokedTogether(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	for range 20 {
		h := a.hold()
		x := tell(h)
		own, other := a.queue(w.soon()), b.queue(w.soon())
		w.svc.Expire(w.t, h.SessionID())
		h2 := other.granted()
		w.when(x)
		var again session.Token
		select {
		case again = <-a.joined:
		case <-own.Done:
			require.Fail(w.t, "granted without an entry")
		}
		require.Greater(w.t, again, own.token)
		require.True(w.t, own.waiting(), "another holds")
		w.t.Logf("token %d lost, %d after it in place %d", h.Token(), h2.Token(), again)
		w.unlock(h2)
		require.Equal(w.t, again, own.granted().Token())
		w.unlock(own.Hold)
		require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	}
}

package recipetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

// downgrades are the cases of writers that become readers.
func downgrades() []testCase {
	return []testCase{
		{"DowngradeKeepsTokenAndPlace", downgradeKeeps},
		{"DowngradeGrantsReadersAndNoWriter", downgradeBetween},
		{"DowngradeWithAWriterRightBehindGrantsNothing", downgradeBeforeWriter},
		{"DowngradedHolderCutOffIsLostBeforeTheNextIsGranted", downgradeThenCutOff},
		{"UnlockWhileDowngradeLeavesNothing", downgradeRace},
		{"DowngradeOfAnotherHoldIsRefused", downgradeRefused},
		{"DowngradeAndProclaimRefuseAHoldThatIsNotTheirs", wrongHold},
	}
}

// downgrade makes a reader of a writer, and ends the case if that fails.
func (p *Client) downgrade(h *session.Hold) {
	p.w.t.Helper()
	require.NoError(p.w.t, rwlock.New(p.Session, name).Downgrade(p.w.soon(), h), "downgrade")
}

func downgradeKeeps(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(writing)
	token, before := h.Token(), b.nth(0)
	require.False(w.t, before.Shares())
	require.Equal(w.t, session.Exclusive, h.Mode())
	a.downgrade(h)

	entries := b.entries()
	require.Len(w.t, entries, 1)
	assert.True(w.t, entries[0].Shares())
	assert.Equal(w.t, before.Place, entries[0].Place)
	assert.EqualValues(w.t, token, entries[0].Token)
	assert.Equal(w.t, "a", Shown(entries[0]).Label)
	assert.Equal(w.t, "rwlock", Shown(entries[0]).Kind)
	assert.Equal(w.t, token, h.Token())
	assert.Equal(w.t, session.Shared, h.Mode())
	assert.Equal(w.t, entries[0].Ref, Refs(h)[0])
	assert.NotZero(w.t, h.Remaining())
	require.NoError(w.t, h.Context().Err())
	w.unlock(h)
}

// soonest is less than a waiter waits before it reads without an event.
const soonest = 5 * time.Second

// downgradeBetween: in W, R, W2, R2 only R joins W when that reads.
func downgradeBetween(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	for _, p := range []*Client{a, b} { // also in the writer's own session
		h := a.holds(writing)
		in := []*Request{p.queueFor(w.soon(), reading), c.queueFor(w.soon(), reading)}
		writer := p.queueFor(w.soon(), writing)
		out := c.queueFor(w.soon(), reading)
		w.wait("a writer holds", in...)
		at := time.Now()
		a.downgrade(h)
		for _, r := range in {
			r.granted()
			assert.Less(w.t, r.at.Sub(at)-w.stalled(at), soonest, "granted by an event")
		}
		w.wait("readers ahead of them hold", writer, out)
		require.NoError(w.t, h.Context().Err())
		for _, r := range in {
			w.unlock(r.Hold)
		}
		w.wait("the downgraded one holds", writer, out)
		w.unlock(h)
		h = writer.granted()
		w.wait("a writer holds", out)
		w.unlock(h)
		w.unlock(out.granted())
	}
}

func downgradeBeforeWriter(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	for _, p := range []*Client{a, b} {
		h := a.holds(writing)
		writer := p.queueFor(w.soon(), writing)
		reader := c.queueFor(w.soon(), reading)
		a.downgrade(h)
		w.wait("no writer holds, and no reader overtakes one", writer, reader)
		late := c.queueFor(w.soon(), reading)
		w.wait("a writer is ahead of it", late)
		w.unlock(h)
		h = writer.granted()
		w.wait("a writer holds", reader, late)
		w.unlock(h)
		w.unlock(reader.granted())
		w.unlock(late.granted())
	}
}

func downgradeThenCutOff(w *Fixture) {
	a, b := w.open("a", 2*w.short), w.Client("b") // it must live until the downgrade is done
	h := a.holds(writing)
	a.downgrade(h)
	x := endOf(h)
	writer := b.queueFor(w.soon(), writing)
	a.net.Cut(fault.Both)
	next := w.endsBefore(h, x, writer)
	a.net.Heal()
	w.unlock(next[0])
}

func downgradeRace(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	for i := range 30 {
		h := a.holds(writing)
		reader, writer := b.queueFor(w.soon(), reading), b.queueFor(w.soon(), writing)
		done := make(chan error, 1)
		go func() { done <- rwlock.New(a.Session, name).Downgrade(w.soon(), h) }()
		if i%3 > 0 {
			a.net.OnRequest(nil) // takes a mutex, so that the other goroutine may run first
		}
		w.unlock(h) // it releases, whatever the outcome of the downgrade
		if err := <-done; err != nil {
			require.ErrorIs(w.t, err, session.ErrUnlocked)
		}
		reader.granted()
		w.unlock(reader.Hold)
		w.unlock(writer.granted())
	}
}

func downgradeRefused(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	rw := rwlock.New(a.Session, name)
	refused := func(h *session.Hold, want error, why string) {
		w.t.Helper()
		a.sends(0, why, func() { require.ErrorIs(w.t, rw.Downgrade(w.soon(), h), want, why) })
	}
	h := a.holds(reading)
	refused(h, session.ErrNotWriter, "a read hold")
	w.unlock(h)
	h = a.holds(writing)
	a.downgrade(h)
	refused(h, session.ErrNotWriter, "downgraded before")
	w.unlock(h)
	refused(h, session.ErrUnlocked, "released")
	h = b.holds(writing)
	refused(h, session.ErrNotWriter, "of another session")
	w.unlock(h)
	h = a.holds(writing)
	x := endOf(h)
	w.svc.Expire(w.t, h.SessionID())
	a.queueFor(w.soon(), passing(lock)) // the answer of the service reports the end
	w.when(x)
	refused(h, session.ErrLost, "lost")
}

// wrongHold: the recipe sends nothing, and the hold excludes others as before.
func wrongHold(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	refuses := func(h *session.Hold, why string) {
		w.t.Helper()
		a.sends(0, why, func() {
			require.ErrorIs(w.t, rwlock.New(a.Session, name).Downgrade(w.soon(), h), session.ErrNotWriter, why)
			require.ErrorIs(w.t, election.New(a.Session, name).Proclaim(w.soon(), h, "x"), session.ErrNotLeader, why)
		})
	}
	refuses(nil, "no hold")
	refuses(&session.Hold{}, "a hold that no recipe has made")
	for why, want := range map[string]locking{
		"a mutex's":     lock,
		"a semaphore's": wanting(1, 1),
		"of several":    wantAll(name, "other"),
		"another election's": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return election.New(s, "other").Campaign(ctx, "")
		},
		"another lock's": func(ctx context.Context, s *session.Session) (*session.Hold, error) {
			return rwlock.New(s, "other").Lock(ctx)
		},
	} {
		h, err := want(w.soon(), a.Session)
		require.NoError(w.t, err, why)
		refuses(h, why)
		require.NoError(w.t, h.Context().Err(), why)
		if h.Name() == name {
			_, err = w.try(rwlock.New(b.Session, name).TryRLock)
			require.ErrorIs(w.t, err, session.ErrNotAcquired, why)
		}
		w.unlock(h)
	}
	foreign, err := rwlock.New(b.Session, name).Lock(w.soon())
	require.NoError(w.t, err)
	refuses(foreign, "another session's")
	w.unlock(foreign)
}

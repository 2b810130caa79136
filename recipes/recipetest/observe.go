package recipetest

import (
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// observations are the cases of Observe.
func observations() []testCase {
	return slices.Concat(
		[]testCase{
			{"ObserveYieldsTheStateAtOnceAndEveryChange", observeChanges},
			{"ObserveNeverMissesTheLastState", observeLast},
			{"ObserveGoesOnAfterItsSessionExpired", func(w *Fixture) {
				observeLoss(w, func(_ *Client, id string) { w.svc.Expire(w.t, id) })
			}},
			{"ObserveYieldsTheNextLeaderAfterADeath", observeDeaths},
			{"ObserveEndsWithItsContext", observeEnds},
			{"ObserveEndsWithItsLoop", observeBreaks},
			{"ObserveEndsWithItsSession", observeClosed},
			{"ObserveReturnsWhatIsWrongWithTheName", observeInvalid},
		},
		over("ObserveGoesOnAfterACutOf%v", fault.Directions(), observeCut),
		over("ObserveGoesOnAfterALongCutOf%v", fault.Directions(), func(w *Fixture, d fault.Direction) {
			observeLoss(w, func(c *Client, _ string) { c.net.Cut(d) })
		}),
	)
}

func observeChanges(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	o := c.observe()
	o.vacancy()
	h := a.lead("one")
	assert.Equal(w.t, h.Token(), o.sees("one").Token)
	late := c.observe()
	assert.Equal(w.t, "a", late.sees("one").Entry.Label, "a later call of Observe yields the leader at once")
	r := b.campaign(w.soon(), "three")
	a.proclaim(h, "two")
	assert.Equal(w.t, h.Token(), o.sees("two").Token)
	w.unlock(h)
	assert.Equal(w.t, r.granted().Token(), o.sees("three").Token)
	w.unlock(r.Hold)
	o.vacancy()
	h = a.lead("four")
	o.sees("four")
	assert.Equal(w.t, "four", late.sees("four").Value)
	w.unlock(h)
	late.vacancy()
}

// observeLast makes many changes follow each other, by one leader and by many. Observe may
// leave out what comes between, and never the last state.
func observeLast(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	o := c.observe()
	for round := range 5 {
		for i := range 10 {
			p := []*Client{a, b}[i%2]
			h := p.lead("between")
			for j := range i {
				p.proclaim(h, fmt.Sprint("between ", j))
			}
			w.unlock(h)
		}
		last := fmt.Sprint("last of round ", round)
		h := b.lead(last)
		if round%2 == 0 {
			last += ", changed"
			b.proclaim(h, last)
		}
		o.sees(last)
		w.unlock(h)
		o.vacancy()
	}
}

func observeCut(w *Fixture, d fault.Direction) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.lead("one")
	o := c.observe()
	o.sees("one")
	r := b.campaign(w.soon(), "three")
	c.net.Cut(d)
	a.proclaim(h, "two")
	w.unlock(h)
	r.granted()
	c.net.Heal()
	assert.Equal(w.t, r.Hold.Token(), o.sees("three").Token)

	c.net.Cut(d)
	w.unlock(r.Hold)
	w.eventually(0, "resigned")
	c.net.Heal()
	o.vacancy()
	w.unlock(a.lead("five"))
	assert.Empty(w.t, o.errs)
}

// lose calls end, and waits until the service session of a client is lost by it.
func (p *Client) lose(end func(sessionID string)) {
	p.w.t.Helper()
	h := p.holdOne("of " + p.Options().Label)
	x := endOf(h)
	end(h.SessionID())
	// The refusal of an own request reports the end where no event does.
	p.w.when(x)
	require.ErrorIs(p.w.t, h.Unlock(), session.ErrLost)
}

// observeLoss has the session of the observer end twice, by end.
func observeLoss(w *Fixture, end func(c *Client, sessionID string)) {
	a, c := w.Client("a"), w.mortal("c")
	h := a.lead("one")
	o := c.observe()
	o.sees("one")
	c.lose(func(id string) { end(c, id) })
	a.proclaim(h, "two")
	c.net.Heal()
	o.sees("two")

	c.lose(func(id string) { end(c, id) })
	w.unlock(h)
	c.net.Heal()
	o.vacancy()
	h = a.lead("three")
	o.sees("three")
	w.unlock(h)
	assert.Empty(w.t, o.errs)
}

func observeDeaths(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.lead("one")
	o := c.observe()
	o.sees("one")
	r := b.campaign(w.soon(), "two")
	w.svc.Expire(w.t, h.SessionID())
	o.sees("two")
	w.svc.Delete(w.t, Refs(r.granted())[0])
	o.vacancy()
	require.ErrorIs(w.t, a.elect().Proclaim(w.soon(), h, "never"), session.ErrLost)
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	_ = r.Hold.Unlock() // the event may not have come yet, and then the answer shows the end
}

// observeEnds has contexts end at any moment, also while the service cannot be reached.
func observeEnds(w *Fixture) {
	a, c := w.Client("a"), w.Client("c")
	for _, cut := range []bool{false, true} {
		h := a.lead("one")
		o := c.observe()
		o.sees("one")
		if cut {
			c.net.Cut(fault.Both)
		}
		at := time.Now()
		o.stop()
		assert.Empty(w.t, o.ended(), "the end of its context is no error")
		w.prompt(at, time.Now())
		c.net.Heal()
		w.unlock(h)
	}
	ctx, cancel := context.WithCancel(w.soon())
	cancel()
	for _, err := range c.elect().Observe(ctx) {
		assert.Fail(w.t, "a value after the end", "%v", err)
	}
}

// observeBreaks breaks out of many loops, and counts the goroutines that they have left.
func observeBreaks(w *Fixture) {
	a, c := w.Client("a"), w.Client("c")
	h := a.lead("one")
	once := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, w.timeout())
		defer cancel()
		for l, err := range c.elect().Observe(ctx) {
			require.NoError(w.t, err)
			require.Equal(w.t, "one", l.Value)
			break
		}
	}
	pprof.Do(w.t.Context(), pprof.Labels(ofCase, w.t.Name()), func(ctx context.Context) {
		for range 200 {
			once(ctx)
		}
	})
	w.until("goroutines of watches take a moment to end", func() bool { return w.goroutines() <= 10 })
	w.unlock(h)
}

func observeClosed(w *Fixture) {
	for _, cut := range []bool{false, true} {
		c := w.Client("c")
		o := c.observe()
		o.vacancy()
		if cut {
			c.net.Cut(fault.Both)
		}
		err := c.Close() // of a session that is cut off it fails, after a while
		if !cut {
			require.NoError(w.t, err)
		}
		at := time.Now()
		errs := o.ended()
		w.prompt(at, time.Now())
		require.Len(w.t, errs, 1)
		require.ErrorIs(w.t, errs[0], session.ErrClosed)
	}
}

func observeInvalid(w *Fixture) {
	c := w.Client("c")
	refused := func(e *election.Election, want error) {
		w.t.Helper()
		n := 0
		for _, err := range e.Observe(w.soon()) {
			n++
			require.ErrorIs(w.t, err, want)
		}
		assert.Equal(w.t, 1, n)
		_, err := e.Leader(w.soon())
		require.ErrorIs(w.t, err, want)
		_, err = e.Campaign(w.soon(), "v")
		require.ErrorIs(w.t, err, want)
	}
	refused(election.New(c.Session, ""), session.ErrInvalidName)
	refused(election.New(c.Session, "a\x00b"), session.ErrInvalidName)
	refused(election.New(nil, name), session.ErrClosed)
}

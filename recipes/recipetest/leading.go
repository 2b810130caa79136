package recipetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// leading are the cases of Run.
func leading() []testCase {
	return []testCase{
		{"RunLeadsAgainAndAgainUntilItsContextEnds", runAgain},
		{"RunCutOffStopsBeforeTheNextStarts", runCut},
		{"RunWaitsForItsWork", runWaits},
		{"RunThatHasLostWaitsForItsWork", runLostWaits},
		{"RunEndsWithItsContextWhileItWaits", runCancelledWaiting},
		{"RunPausesAfterShortWorkAndOthersLead", runRests},
		{"RunReturnsTheErrorOfItsWorkAndHasResigned", runFails},
		{"RunCampaignsAgainAfterALossWithAnError", runLostFails},
		{"RunThatPanicsReleases", runPanics},
		{"RunEndsWhereWaitingCannotHelp", runIncurable},
	}
}

// stint is one leadership.
type stint struct {
	p     *Client
	hold  *session.Hold
	ctx   context.Context
	began time.Time
	lost  *ending
	leave chan error // what the work returns

	mu    sync.Mutex
	ended time.Time
}

// runner is a Run under way.
type runner struct {
	w      *Fixture
	stints chan *stint
	done   chan struct{}
	err    error
	stop   context.CancelCauseFunc
	over   func() // ends the work of all its stints
}

// run starts a Run. Each stint lasts until its leave is sent something, or the case
// ends.
func (p *Client) run(value string) *runner { return p.runs(p.elect(), value) }

// runs is run for an election with options.
func (p *Client) runs(e *election.Election, value string) *runner {
	ctx, cancel := context.WithCancelCause(context.Background())
	over := make(chan struct{})
	r := &runner{w: p.w, stints: make(chan *stint, 100), done: make(chan struct{}), stop: cancel, over: sync.OnceFunc(func() { close(over) })}
	go func() {
		defer close(r.done)
		r.err = e.Run(ctx, value, func(ctx context.Context, h *session.Hold) error {
			//nolint:contextcheck // endOf watches the context of the hold
			s := &stint{p: p, hold: h, ctx: ctx, began: time.Now(), lost: endOf(h), leave: make(chan error, 1)}
			r.stints <- s
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.ended = time.Now()
			}()
			select {
			case err := <-s.leave:
				return err
			case <-over:
				return nil
			}
		})
	}()
	p.w.t.Cleanup(func() {
		cancel(nil)
		r.over()
		<-r.done
	})
	return r
}

// leads waits for the next stint.
func (r *runner) leads() *stint {
	r.w.t.Helper()
	select {
	case s := <-r.stints:
		return s
	case <-r.done:
		require.Fail(r.w.t, "Run has returned", "%v", r.err)
	case <-time.After(r.w.timeout()):
		require.Fail(r.w.t, "does not lead")
	}
	return nil
}

// returned waits for the end of Run.
func (r *runner) returned() error {
	r.w.t.Helper()
	within(r.w.t, r.w.timeout(), r.done, "the end of Run")
	return r.err
}

func runAgain(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	ra := a.run("value of a")
	first := ra.leads()
	rb := b.run("value of b")
	w.eventually(2, "both have joined")
	assert.Equal(w.t, "value of a", b.leader().Value)
	assert.Equal(w.t, first.hold.Token(), b.leader().Token)
	last := first.hold.Token()
	first.leave <- nil
	for i := range 4 { // in turn, since a leader that resigns joins at the end of the queue
		s := []*runner{rb, ra}[i%2].leads()
		assert.Greater(w.t, s.hold.Token(), last)
		assert.Equal(w.t, s.hold.Token(), a.leader().Token)
		require.NoError(w.t, s.ctx.Err())
		last = s.hold.Token()
		w.eventually(2, "the other waits")
		s.leave <- nil
	}
	s := rb.leads()
	why := errors.New("shutting down")
	rb.stop(why)
	<-s.ctx.Done()
	require.ErrorIs(w.t, context.Cause(s.ctx), why)
	s.leave <- nil
	err := rb.returned()
	require.ErrorIs(w.t, err, context.Canceled)
	require.ErrorIs(w.t, err, why)
	s = ra.leads()
	ra.stop(nil)
	s.leave <- errors.New("not of interest any more")
	require.ErrorIs(w.t, ra.returned(), context.Canceled)
}

func runCut(w *Fixture) {
	for _, d := range fault.Directions() {
		a, b := w.mortal("a"), w.Client("b")
		ra := a.run("a")
		first := ra.leads()
		rb := b.run("b")
		w.eventually(2, "both have joined")
		go func() { // the work stops when its context ends
			<-first.ctx.Done()
			first.leave <- first.ctx.Err()
		}()
		a.net.Cut(d)
		second := rb.leads()

		lost, late := w.when(first.lost), w.late(second.began)
		assert.True(w.t, late || !lost.After(second.began), "%v: its context ended %s after the next one began", d, lost.Sub(second.began))
		first.mu.Lock()
		stopped := !first.ended.IsZero() && !first.ended.After(second.began)
		first.mu.Unlock()
		assert.True(w.t, late || stopped, "%v: it had stopped", d)
		require.ErrorIs(w.t, context.Cause(first.ctx), session.ErrLost)
		a.net.Heal()
		w.eventually(2, "it campaigns again")
		require.NoError(w.t, second.ctx.Err())
		rb.stop(nil) // or b could lead again, if the short session of a loses its place on a busy machine
		second.leave <- nil
		require.ErrorIs(w.t, rb.returned(), context.Canceled)
		again := ra.leads()
		assert.Greater(w.t, again.hold.Token(), second.hold.Token())
		ra.stop(nil)
		again.leave <- nil
		require.ErrorIs(w.t, ra.returned(), context.Canceled)
		w.eventually(0, "nothing is left")
	}
}

// runWaits has the context end while the work goes on, for longer than a session
// lives by itself.
func runWaits(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	ra := a.run("a")
	s := ra.leads()
	r := b.campaign(w.soon(), "b")
	ra.stop(nil)
	<-s.ctx.Done()
	long := wrongly
	if w.h.Virtual { // past the end of a session that is not renewed any more
		long = 2 * w.h.TTL
	}
	select {
	case <-r.Done:
	case <-time.After(long):
	}
	require.True(w.t, r.waiting(), "another leads while the work goes on")
	require.NoError(w.t, s.hold.Context().Err(), "it still leads")
	assert.Equal(w.t, s.hold.Token(), b.leader().Token)
	s.leave <- nil
	require.ErrorIs(w.t, ra.returned(), context.Canceled)
	w.unlock(r.granted())
}

// runLostWaits: Run does not campaign while the work of a lost leadership goes on.
func runLostWaits(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	ra := a.run("a")
	s := ra.leads()
	r := b.campaign(w.soon(), "b")
	w.svc.Delete(w.t, Refs(s.hold)[0])
	w.when(s.lost)
	r.granted()
	w.eventually(1, "it is not in the queue while its work goes on")
	w.unlock(r.Hold)
	w.unlock(b.lead("b again"))
	assert.Empty(w.t, ra.stints)
	s.leave <- nil
	again := ra.leads()
	ra.stop(nil) // or it could lead once more, and would still do so at the end
	again.leave <- nil
	require.ErrorIs(w.t, ra.returned(), context.Canceled)
}

func runCancelledWaiting(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.lead("a")
	rb := b.run("b")
	w.eventually(2, "both have joined")
	at := time.Now()
	rb.stop(nil)
	require.ErrorIs(w.t, rb.returned(), context.Canceled)
	w.prompt(at, time.Now())
	w.eventually(1, "it has left")
	w.unlock(h)
}

func runRests(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	ra := a.run("a")
	var began []time.Time
	for range 4 {
		s := ra.leads()
		began = append(began, s.began)
		s.leave <- nil
	}
	r := b.campaign(w.soon(), "b") // before a comes again, or behind it
	for r.waiting() {
		select {
		case s := <-ra.stints:
			s.leave <- nil
		case <-r.Done:
		}
	}
	w.unlock(r.granted())

	for i, least := 1, 50*time.Millisecond; i < len(began); i, least = i+1, 2*least {
		assert.GreaterOrEqual(w.t, began[i].Sub(began[i-1]), least, "rest %d", i)
	}
	at, rests := time.Now(), true
	ra.stop(nil)
	for running := true; running; {
		select {
		case s := <-ra.stints: // on a machine that stands still a has joined again behind b
			rests = false
			s.leave <- nil
		case <-ra.done:
			running = false
		case <-time.After(w.timeout()):
			require.Fail(w.t, "Run goes on")
		}
	}
	require.ErrorIs(w.t, ra.err, context.Canceled)
	if rests {
		w.prompt(at, time.Now(), "a rest ends with the context")
	}
}

func runPanics(w *Fixture) {
	p := w.Client("p")
	assert.PanicsWithValue(w.t, "boom", func() {
		_ = p.elect().Run(w.soon(), "p", func(context.Context, *session.Hold) error { panic("boom") })
	})
	w.eventually(0, "released")
}

func runIncurable(w *Fixture) {
	p := w.Client("p")
	never := func(context.Context, *session.Hold) error {
		assert.Fail(w.t, "called")
		return nil
	}
	long := strings.Repeat("v", p.Info().MaxData+1)
	require.ErrorIs(w.t, p.elect().Run(w.soon(), long, never), session.ErrInvalidOptions)
	require.ErrorIs(w.t, election.New(p.Session, "").Run(w.soon(), "v", never), session.ErrInvalidName)
	require.ErrorIs(w.t, election.New(nil, name).Run(w.soon(), "v", never), session.ErrClosed)
	h := p.lead("p")
	require.ErrorIs(w.t, p.elect().Run(h.Context(), "v", never), session.ErrReentrant)
	w.unlock(h)
	require.NoError(w.t, p.Close())
	require.ErrorIs(w.t, p.elect().Run(w.soon(), "v", never), session.ErrClosed)
}

// runFails: an error of the work ends Run, which resigns first.
func runFails(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	ra := a.run("a")
	s := ra.leads()
	r := b.campaign(w.soon(), "b")
	why := errors.New("cannot open the database")
	s.leave <- why

	err := ra.returned()
	require.ErrorIs(w.t, err, why)
	require.NotErrorIs(w.t, err, session.ErrLost)
	w.unlock(r.granted())
	w.eventually(0, "nothing is left")
	assert.Empty(w.t, ra.stints)
}

// runLostFails: a lost leadership is no error of Run, and an error of the work that
// comes with it does not end Run.
func runLostFails(w *Fixture) {
	a := w.Client("a")
	ra := a.run("a")
	s := ra.leads()
	w.svc.Delete(w.t, Refs(s.hold)[0])
	<-s.ctx.Done()
	s.leave <- errors.New("refused by the table")

	again := ra.leads()
	assert.Greater(w.t, again.hold.Token(), s.hold.Token())
	ra.stop(nil)
	why := errors.New("cannot flush")
	again.leave <- why
	require.ErrorIs(w.t, ra.returned(), why, "ended with its context, and with an error")
}

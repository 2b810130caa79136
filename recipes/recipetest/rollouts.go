package recipetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// rollOuts are the cases of candidates with a generation.
func rollOuts() []testCase {
	return []testCase{
		{"ARollOutChangesTheLeaderOnce", rollOutOnce},
		{"AtTheEndOfARunTheNextCandidateLeads", rollOutAtEnd},
		{"ANewerCandidateWithoutAnOlderLeaderAheadIsNotPassed", rollOutNewerLeads},
		{"ANumberThatGoesBackChangesNothing", rollOutBack},
		{"CandidatesWithoutANumberTakeNoPart", rollOutUnnumbered},
		{"ACandidateWithoutANumberDoesNotStep", rollOutUnnumberedNext},
		{"RunHandsOverOnceToAGeneration", rollOutOnceEach},
		{"ANegativeSettleNeverHandsOver", rollOutNeverSettles},
		{"AnErrorOfAHandOverIsNoFailure", rollOutErrors},
		{"ACandidateGrantedInAStepIsReleasedUnused", rollOutGrantedInStep},
		{"NextRunsWhileTheCandidateIsNext", rollOutNext},
		{"NextEndsAtTheGrant", rollOutNextGranted},
		{"ACandidateThatGivesUpInAStepLeavesNothing", rollOutGivesUp},
	}
}

// settle is how long a newer candidate is next until a case's leader hands over.
const settle = 50 * time.Millisecond

// of runs a candidate of a generation.
func (p *Client) of(generation int64) *runner {
	return p.runs(p.generation(generation, settle), fmt.Sprint("of ", generation))
}

func (p *Client) generation(n int64, settle time.Duration) *election.Election {
	return election.NewWith(p.Session, name, election.Options{Generation: n, Settle: settle, Next: func(context.Context) {}})
}

// order waits until the queue has candidates of these generations, in this order.
func (w *Fixture) order(by *Client, generations ...int64) {
	w.t.Helper()
	var last []int64
	w.until(fmt.Sprint("candidates of ", generations), func() bool {
		last = nil
		for _, e := range by.entries() {
			last = append(last, metaOf(e).Generation)
		}
		return slices.Equal(last, generations)
	})
}

// waits checks that a Run leads nowhere.
func (r *runner) waits(why string) {
	r.w.t.Helper()
	assert.Empty(r.w.t, r.stints, why)
}

// endRuns ends Runs, and the work of those that lead.
func endRuns(rs ...*runner) {
	for _, r := range rs {
		r.stop(nil)
		r.over()
		require.ErrorIs(r.w.t, r.returned(), context.Canceled)
	}
}

// handedOver waits until the leadership was ended for a newer candidate.
func (s *stint) handedOver() {
	s.p.w.t.Helper()
	within(s.p.w.t, s.p.w.timeout(), s.ctx.Done(), "a hand-over")
	require.ErrorIs(s.p.w.t, context.Cause(s.ctx), election.ErrHandOver)
}

// rollOutOnce replaces three processes, the new ones first, and then the old ones in the worst order.
func rollOutOnce(w *Fixture) {
	ps := w.clients(6)
	var old, fresh []*runner
	for i, p := range ps[:3] {
		old = append(old, p.of(1))
		w.eventually(i+1, "an old candidate")
	}
	first := old[0].leads()
	fresh = append(fresh, ps[3].of(2))
	w.order(ps[0], 1, 2, 1, 1) // both have stepped, one after the other
	for i, p := range ps[4:] {
		fresh = append(fresh, p.of(2))
		w.eventually(5+i, "a new candidate")
	}
	w.order(ps[0], 1, 2, 1, 1, 2, 2) // behind a newer one no other steps
	first.handedOver()
	fresh[0].waits("the work of the old leader has not returned")
	first.leave <- nil
	second := fresh[0].leads()
	assert.Greater(w.t, second.hold.Token(), first.hold.Token())

	for i, r := range old {
		r.stop(nil)
		require.ErrorIs(w.t, r.returned(), context.Canceled, "old candidate %d", i)
	}
	w.order(ps[5], 2, 2, 2)
	require.NoError(w.t, second.ctx.Err())
	for _, r := range slices.Concat(old, fresh) {
		r.waits("one change of the leader")
	}
	endRuns(fresh...)
}

func rollOutAtEnd(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	ra := a.runs(a.generation(1, time.Hour), "a")
	s := ra.leads()
	rb := b.runs(b.generation(1, time.Hour), "b")
	w.eventually(2, "both have joined")
	rc := c.runs(c.generation(2, time.Hour), "c")
	w.order(a, 1, 2, 1)
	require.NoError(w.t, s.ctx.Err(), "it is not next for long enough")
	ra.stop(nil)
	s.leave <- nil
	require.ErrorIs(w.t, ra.returned(), context.Canceled)
	rc.leads()
	rb.waits("an old one")
	endRuns(rb, rc)
}

func rollOutNewerLeads(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	ra := a.of(2)
	s := ra.leads()
	rb := b.of(1)
	w.eventually(2, "an older one")
	rc := c.of(2)
	w.order(a, 2, 1, 2)
	w.quiet()
	w.order(a, 2, 1, 2)
	require.NoError(w.t, s.ctx.Err())
	rb.waits("the leader is live")
	rc.waits("the leader is live")
	endRuns(rb, rc, ra)
}

func rollOutBack(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	ra := a.of(2)
	s := ra.leads()
	rb := b.of(1)
	w.order(a, 2, 1)
	w.quiet()
	require.NoError(w.t, s.ctx.Err())
	rb.waits("the leader is live")
	endRuns(rb, ra)
}

// rollOutUnnumbered has a candidate without a number everywhere in the queue.
func rollOutUnnumbered(w *Fixture) {
	a, b, c, d := w.Client("a"), w.Client("b"), w.Client("c"), w.Client("d")
	ra := a.of(1)
	s := ra.leads()
	rb := b.of(0)
	w.order(a, 1, 0)
	rc := c.of(1)
	w.order(a, 1, 0, 1)
	rd := d.of(2)
	w.order(a, 1, 0, 1, 2)
	w.quiet()
	w.order(a, 1, 0, 1, 2)
	require.NoError(w.t, s.ctx.Err(), "one without a number is next")
	ra.stop(nil)
	s.leave <- nil
	s = rb.leads()
	w.order(a, 0, 2, 1) // one without a number leads, which is not newer
	w.quiet()
	require.NoError(w.t, s.ctx.Err())
	s.leave <- nil
	rd.leads()
	w.order(a, 2, 1, 0)
	rc.waits("an old one")
	endRuns(rb, rc, rd)
}

func rollOutUnnumberedNext(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	ra := a.of(0)
	s := ra.leads()
	rb := b.of(0)
	w.eventually(2, "both have joined")
	rc := c.of(2)
	w.order(a, 0, 0, 2)
	w.quiet()
	w.order(a, 0, 0, 2)
	require.NoError(w.t, s.ctx.Err())
	endRuns(ra)
	rb.leads()
	endRuns(rb, rc)
}

// rollOutOnceEach has a new version that leads and ends, again and again.
func rollOutOnceEach(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	ra := a.of(1)
	s := ra.leads()
	for generation := int64(2); generation < 4; generation++ {
		rb := b.of(generation)
		s.handedOver()
		s.leave <- nil
		broken := rb.leads()
		w.order(a, generation, 1)
		broken.leave <- errors.New("broken")
		require.ErrorContains(w.t, rb.returned(), "broken")
		s = ra.leads()

		rb = b.of(generation)
		w.order(a, 1, generation)
		w.quiet()
		require.NoError(w.t, s.ctx.Err(), "it was handed over to that generation before")
		rb.waits("the leader is live")
		rb.stop(nil)
		require.ErrorIs(w.t, rb.returned(), context.Canceled)
	}
	rb := b.of(3)
	w.order(a, 1, 3)
	ra.stop(nil)
	s.leave <- nil
	rb.leads()
	endRuns(ra, rb)
}

func rollOutNeverSettles(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	ra := a.runs(a.generation(1, -1), "a")
	s := ra.leads()
	rb := b.of(2)
	w.order(a, 1, 2)
	w.quiet()
	require.NoError(w.t, s.ctx.Err())
	ra.stop(nil)
	s.leave <- nil
	rb.leads()
	endRuns(rb)
}

func rollOutErrors(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	ra := a.of(1)
	for generation := int64(2); generation < 8; generation++ {
		s := ra.leads()
		rb := b.of(generation)
		s.handedOver()
		s.leave <- []error{nil, context.Canceled, fmt.Errorf("flush: %w", context.Cause(s.ctx))}[generation%3]
		rb.leads().leave <- errors.New("broken")
		require.ErrorContains(w.t, rb.returned(), "broken")
	}
	s := ra.leads()
	rb := b.of(8)
	s.handedOver()
	s.leave <- errors.New("cannot flush")
	require.ErrorContains(w.t, ra.returned(), "cannot flush", "any other error is one")
	rb.leads()
	endRuns(rb)
}

// rollOutGrantedInStep loses the request by which a candidate joins behind a newer one, and ends the
// leader before it is sent again.
func rollOutGrantedInStep(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	ra := a.runs(a.generation(1, -1), "a")
	s := ra.leads()
	rb := b.of(1)
	w.eventually(2, "both have joined")
	b.net.Inject(fault.Join, fault.LostRequest)
	rc := c.of(2)
	w.until("the candidate steps", func() bool {
		waiting, _ := b.requests.Open()
		return waiting == 2
	})
	ra.stop(nil)
	ended := time.Now()
	s.leave <- nil
	select {
	case <-rc.stints:
	case s = <-rb.stints:
		require.GreaterOrEqual(w.t, time.Since(ended), 5*time.Second, "only where the second request has no answer for so long")
		s.leave <- nil
		rc.leads()
	case <-time.After(w.timeout()):
		require.Fail(w.t, "no candidate leads")
	}
	w.order(a, 2, 1)
	rb.waits("it was granted during a step")
	endRuns(rb, rc)
}

// nexts is a candidate that records when it is next.
func (p *Client) nexts(ctx context.Context, generation int64) (*Request, chan context.Context) {
	began := make(chan context.Context, 100)
	r := p.queueFor(ctx, func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return election.NewWith(s, name, election.Options{Generation: generation, Next: func(ctx context.Context) {
			began <- ctx
			<-ctx.Done()
		}}).Campaign(ctx, "v")
	})
	return r, began
}

func rollOutNext(w *Fixture) {
	a, b, c, d := w.Client("a"), w.Client("b"), w.Client("c"), w.Client("d")
	h := a.lead("a")
	second := b.campaign(w.soon(), "b")
	r, began := c.nexts(w.soon(), 1)
	w.quiet()
	assert.Empty(w.t, began, "two are ahead")
	w.unlock(h)
	h = second.granted()
	ctx := within(w.t, w.timeout(), began, "to be next")
	w.quiet()
	require.NoError(w.t, ctx.Err())
	assert.Empty(w.t, began, "once")

	newer := d.of(2)
	within(w.t, w.timeout(), ctx.Done(), "the step")
	w.order(a, 0, 2, 1)
	assert.Empty(w.t, began, "it is not next")
	newer.stop(nil)
	ctx = within(w.t, w.timeout(), began, "to be next again")
	endRuns(newer)
	w.svc.Delete(w.t, c.nth(1).Ref)
	within(w.t, w.timeout(), ctx.Done(), "the end of the entry")
	ctx = within(w.t, w.timeout(), began, "to be next in another place")
	require.NoError(w.t, ctx.Err())
	w.unlock(h)
	w.unlock(r.granted())
	require.Error(w.t, ctx.Err())
}

// rollOutNextGranted: nothing of the work runs next to Next.
func rollOutNextGranted(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.lead("a")
	r, began := b.nexts(w.soon(), 0)
	ctx := within(w.t, w.timeout(), began, "to be next")
	w.unlock(h)
	w.unlock(r.granted())
	require.Error(w.t, ctx.Err())
	ended, cancel := context.WithCancel(w.soon())
	h = a.lead("a")
	r, began = b.nexts(ended, 0)
	ctx = within(w.t, w.timeout(), began, "to be next")
	cancel()
	r.returned()
	require.ErrorIs(w.t, r.Err, session.ErrNotAcquired)
	require.Error(w.t, ctx.Err())
	w.unlock(h)
}

func rollOutGivesUp(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.lead("a")
	ctx, cancel := context.WithCancel(w.soon())
	defer cancel()
	r := b.queueFor(ctx, func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return election.NewWith(s, name, election.Options{Generation: 1}).Campaign(ctx, "b")
	})
	b.net.Inject(fault.Join, fault.LostRequest)
	newer := c.of(2)
	w.eventually(3, "the newer one has joined")
	cancel()
	r.returned()
	require.ErrorIs(w.t, r.Err, session.ErrNotAcquired)
	endRuns(newer)
	w.eventually(1, "neither of its entries stays")
	w.unlock(h)
}

// quiet waits for longer than it takes until something happens that should not.
func (w *Fixture) quiet() { time.Sleep(max(wrongly, 4*settle)) }

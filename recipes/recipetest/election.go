package recipetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// elections are the cases of leaders, and of their values.
func elections() []testCase {
	return slices.Concat(
		[]testCase{
			{"CandidatesLeadInTheOrderOfTheQueue", func(w *Fixture) {
				candidate := func(i int) string { return fmt.Sprint("candidate ", i) }
				inOrder(w, func(i int) locking { return campaigning(candidate(i)) }, func(i int, p *Client, h *session.Hold) {
					l := p.leader()
					assert.Equal(w.t, candidate(i), l.Value)
					assert.Equal(w.t, h.Token(), l.Token)
				})
			}},
			{"TheLeaderIsShownToAllClients", leaderKnown},
			{"ProclaimChangesTheValueInItsPlace", proclaimInPlace},
			{"ProclaimWithoutLeadershipIsRefused", proclaimRefused},
			{"ProclaimAfterALossReturnsTheLoss", proclaimLost},
			{"ProclaimCutOffReturnsWithItsContext", proclaimCut},
			{"ProclaimCutOffEndsWithTheLeadership", proclaimCutLong},
			{"ValuesAreTakenUpToTheLargest", values},
		},
		over("ProclaimWith%vIsDone", fault.Retryable(), proclaimOver),
	)
}

// elect returns the election of the cases on p's session.
func (p *Client) elect() *election.Election { return election.New(p.Session, name) }

// campaign starts a Campaign and returns when it has a place in the queue.
func (p *Client) campaign(ctx context.Context, value string) *Request {
	p.w.t.Helper()
	return p.queueFor(ctx, campaigning(value))
}

func campaigning(value string) locking {
	return func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return election.New(s, name).Campaign(ctx, value)
	}
}

// lead campaigns while there is no other candidate.
func (p *Client) lead(value string) *session.Hold {
	p.w.t.Helper()
	return p.campaign(p.w.soon(), value).granted()
}

// leader returns the leader as p reads it, and ends the case if there is none.
func (p *Client) leader() election.Leader {
	p.w.t.Helper()
	l, err := p.elect().Leader(p.w.soon())
	require.NoError(p.w.t, err, "leader")
	return l
}

// proclaim changes the value, and ends the case if it cannot.
func (p *Client) proclaim(h *session.Hold, value string) {
	p.w.t.Helper()
	require.NoError(p.w.t, p.elect().Proclaim(p.w.soon(), h, value), "proclaim")
}

func leaderKnown(w *Fixture) {
	a, b := w.Client("web-2"), w.Client("b")
	_, err := b.elect().Leader(w.soon())
	require.ErrorIs(w.t, err, session.ErrNoLeader)
	h := a.lead("10.0.0.7:8080")
	r := b.campaign(w.soon(), "later")
	l := b.leader()

	assert.Equal(w.t, "10.0.0.7:8080", l.Value)
	assert.Equal(w.t, h.Token(), l.Token)
	assert.False(w.t, l.Vacant())
	assert.Equal(w.t, Refs(h)[0], Detail(l.Entry).Ref)
	assert.Equal(w.t, "web-2", l.Entry.Label)
	assert.Equal(w.t, "election", l.Entry.Kind)
	assert.NotZero(w.t, l.Entry.PID)
	entries, err := a.elect().Queue(w.soon())
	require.NoError(w.t, err)
	require.Len(w.t, entries, 2)
	assert.Equal(w.t, "later", string(entries[1].Value))
	w.unlock(h)
	w.unlock(r.granted())
	_, err = b.elect().Leader(w.soon())
	require.ErrorIs(w.t, err, session.ErrNoLeader)
}

// proclaimInPlace has waiters watch an entry that changes all the time: for them it must
// neither end nor move.
func proclaimInPlace(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.lead("0")
	own, other := a.campaign(w.soon(), "own"), b.campaign(w.soon(), "other")
	o := c.observe()
	first := c.leader()
	described := func(l election.Leader) owner.Meta {
		m := metaOf(Detail(l.Entry))
		m.Granted = time.Time{} // comes when it has led for a second
		return m
	}
	for i := range 20 {
		value := strings.Repeat("x", i*i) + fmt.Sprint(i)
		a.proclaim(h, value)
		l := c.leader()
		require.Equal(w.t, value, l.Value)
		require.Equal(w.t, Detail(first.Entry).Ref, Detail(l.Entry).Ref, "the place stays")
		require.Equal(w.t, h.Token(), l.Token, "and the token")
		assert.Equal(w.t, described(first), described(l), "and the rest of the description")
		require.True(w.t, own.waiting() && other.waiting(), "two lead")
		o.until(func(l election.Leader) bool { return l.Value == value && l.Token == h.Token() })
	}
	a.proclaim(h, "")
	assert.Empty(w.t, c.leader().Value)
	require.NoError(w.t, h.Context().Err())
	w.eventually(3, "all have joined")
	require.True(w.t, own.waiting() && other.waiting(), "two lead")
	w.unlock(h)
	w.unlock(own.granted())
	assert.Equal(w.t, other.token, other.granted().Token())
	assert.Equal(w.t, "other", c.leader().Value)
	w.unlock(other.Hold)
}

func proclaimRefused(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.lead("mine")
	refused := func(p *Client, e *election.Election, h *session.Hold, why string) {
		w.t.Helper()
		p.sends(0, why, func() { require.ErrorIs(w.t, e.Proclaim(w.soon(), h, "theirs"), session.ErrNotLeader, why) })
	}
	refused(b, b.elect(), h, "another session's")
	refused(a, election.New(nil, name), h, "no session")
	m := a.holdOne("some mutex")
	refused(a, election.New(a.Session, "some mutex"), m, "a mutex's, of that name")
	w.unlock(m)
	assert.Equal(w.t, "mine", b.leader().Value)

	w.unlock(h)
	a.sends(0, "after the leader has resigned", func() {
		require.ErrorIs(w.t, a.elect().Proclaim(w.soon(), h, "too late"), session.ErrUnlocked)
	})
}

func proclaimLost(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.lead("first")
	w.svc.Delete(w.t, Refs(h)[0]) // no event of that has come yet
	next := b.lead("second")
	require.ErrorIs(w.t, a.elect().Proclaim(w.soon(), h, "still me"), session.ErrLost)
	w.when(endOf(h))
	require.ErrorIs(w.t, a.elect().Proclaim(w.soon(), h, "still me"), session.ErrLost, "after the event")
	assert.Equal(w.t, "second", a.leader().Value)
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	w.unlock(next)

	h = a.lead("third")
	w.svc.Expire(w.t, h.SessionID())
	require.ErrorIs(w.t, a.elect().Proclaim(w.soon(), h, "still me"), session.ErrLost)
	w.when(endOf(h))
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	_, err := b.elect().Leader(w.soon())
	require.ErrorIs(w.t, err, session.ErrNoLeader)
}

func proclaimOver(w *Fixture, f fault.Kind) {
	a, b := w.Client("a"), w.Client("b")
	h := a.lead("before")
	r := b.campaign(w.soon(), "b")
	a.net.Inject(fault.Update, f)
	a.proclaim(h, "after")
	assert.Equal(w.t, "after", b.leader().Value)
	a.proclaim(h, "at last")
	assert.Equal(w.t, "at last", b.leader().Value, "no copy of the first undoes the second")
	require.True(w.t, r.waiting())
	require.NoError(w.t, h.Context().Err())
	w.unlock(h)
	w.unlock(r.granted())
}

func proclaimCut(w *Fixture) {
	for _, d := range fault.Directions() {
		a, b := w.Client("a"), w.Client("b")
		h := a.lead("before")
		a.givesUp(d, func(ctx context.Context) error { return a.elect().Proclaim(ctx, h, "perhaps") })
		require.NoError(w.t, h.Context().Err(), "the hold is not lost")
		a.proclaim(h, "certainly")
		assert.Equal(w.t, "certainly", b.leader().Value)
		w.unlock(h)
	}
}

// proclaimCutLong: the context of the call has no end, so the call ends with the leadership.
func proclaimCutLong(w *Fixture) {
	a := w.mortal("a")
	h := a.lead("before")
	a.givesUpWith(endOf(h), func() error { return a.elect().Proclaim(w.soon(), h, "never") })
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	a.net.Heal()
}

func values(w *Fixture) {
	p, other := w.Client("p"), w.Client("other")
	largest := strings.Repeat("v", p.Info().MaxData)
	p.sends(0, "too long", func() {
		_, err := p.elect().Campaign(w.soon(), largest+"v")
		require.ErrorIs(w.t, err, session.ErrInvalidOptions)
		require.ErrorContains(w.t, err, fmt.Sprint(len(largest)))
	})

	for _, value := range []string{largest, "", "\x00\xff", `{"v":1,"label":"not ours"}`} {
		h := p.lead(value)
		l := other.leader()
		require.True(w.t, value == l.Value, "%d bytes went in, %d came out", len(value), len(l.Value))
		assert.Equal(w.t, "p", l.Entry.Label)
		require.ErrorIs(w.t, p.elect().Proclaim(w.soon(), h, largest+"v"), session.ErrInvalidOptions)
		p.proclaim(h, "small")
		p.proclaim(h, value)
		require.True(w.t, value == other.leader().Value)
		w.unlock(h)
	}
}

// observing is a call of Observe under way.
type observing struct {
	w    *Fixture
	news chan election.Leader
	done chan struct{} // closed when the loop has ended
	stop context.CancelFunc

	errs []error // read when done, or when no change can come any more
}

// observe starts to observe the election.
func (p *Client) observe() *observing {
	ctx, cancel := context.WithCancel(context.Background())
	o := &observing{w: p.w, news: make(chan election.Leader, 10000), done: make(chan struct{}), stop: cancel}
	go func() {
		defer close(o.done)
		for l, err := range p.elect().Observe(ctx) {
			if err != nil {
				o.errs = append(o.errs, err)
			} else {
				o.news <- l
			}
		}
	}()
	p.w.t.Cleanup(func() {
		cancel()
		<-o.done
	})
	return o
}

// until waits for a leader that is wanted. It skips those before, since Observe may
// report quick changes as one.
func (o *observing) until(want func(election.Leader) bool) election.Leader {
	o.w.t.Helper()
	timeout := time.After(o.w.timeout())
	var last election.Leader
	for {
		select {
		case last = <-o.news:
			if want(last) {
				return last
			}
		case <-o.done:
			require.Fail(o.w.t, "the observation has ended", "%v", o.errs)
		case <-timeout:
			require.Fail(o.w.t, "no such leader", "the last one: %+v", last)
		}
	}
}

// sees waits for a leader with that value.
func (o *observing) sees(value string) election.Leader {
	o.w.t.Helper()
	return o.until(func(l election.Leader) bool { return !l.Vacant() && l.Value == value })
}

// vacancy waits until Observe reports that there is no leader.
func (o *observing) vacancy() {
	o.w.t.Helper()
	o.until(election.Leader.Vacant)
}

// ended waits for the end of the loop, and returns its errors.
func (o *observing) ended() []error {
	o.w.t.Helper()
	within(o.w.t, o.w.timeout(), o.done, "the end of the observation")
	return o.errs
}

// metaOf returns the description of the owner in an entry.
func metaOf(e driver.Entry) owner.Meta { return owner.MetaOf(&e) }

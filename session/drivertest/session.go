package drivertest

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// sessions: what package session makes of the backend's reports.
func sessions() []testCase {
	return []testCase{
		{"ASessionOpensAndClosesCleanly", sessionCloses},
		{"ASessionOpensAnewAfterAnEndFromOutside", sessionReopens},
		{"AContextEndsBeforeTheEntriesOfADeadClientGo", sessionDeadline},
	}
}

// core returns package session as the packages of this module see it.
func core() door.Engine[session.Session, session.Hold, session.Entry, session.Options] {
	return session.Engine(door.Key{})
}

// session opens a session.Session on a client of its own. It owns the backend.
func (w *fixture) session() (*session.Session, Client) {
	w.t.Helper()
	c := w.svc.Client(w.t)
	ctx, stop := context.WithCancel(w.soon())
	defer stop() // a session outlives the context of Open
	s, err := core().Open(ctx, c.Backend(), &session.Options{TTL: w.h.TTL})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		c.Heal()
		assert.NoError(w.t, s.Close())
	})
	return s, c
}

// term is the live term of a session.
func (w *fixture) term(s *session.Session) door.Term {
	w.t.Helper()
	term, err := core().Of(s).Term(w.soon())
	require.NoError(w.t, err)
	return term
}

func sessionCloses(w *fixture) {
	s, _ := w.session()
	_, err := w.term(s).Driver().Join(w.ctx, driver.JoinRequest{Line: line, Meta: core().Of(s).Meta()})
	require.NoError(w.t, err)
	queue, err := s.Queue(w.ctx, line)
	require.NoError(w.t, err)
	require.Len(w.t, queue, 1)
	assert.Equal(w.t, os.Getpid(), queue[0].PID)
	require.NoError(w.t, s.Close())
	w.count(0, line, "Close hands on")
}

func sessionReopens(w *fixture) {
	s, _ := w.session()
	old := w.term(s)
	w.svc.Expire(w.t, old.Driver().ID())
	w.receive(old.Context().Done(), "the end of the term")
	var lost *session.LostError
	require.ErrorAs(w.t, context.Cause(old.Context()), &lost)

	young := w.term(s)
	assert.NotEqual(w.t, old.Driver().ID(), young.Driver().ID())
	_, err := young.Driver().Join(w.ctx, driver.JoinRequest{Line: line})
	require.NoError(w.t, err)
	w.count(1, line, "the new session works")
}

// sessionDeadline is the promise that everything else is there for.
func sessionDeadline(w *fixture) {
	w.expires()
	for _, d := range fault.Directions() {
		s, c := w.session()
		term := w.term(s)
		j, err := term.Driver().Join(w.ctx, driver.JoinRequest{Line: line})
		require.NoError(w.t, err)
		h, err := core().Grant(w.ctx, term, door.Grant{
			Name: line, Kind: "mutex", Token: j.Entry.Token, Refs: []driver.Ref{j.Entry.Ref},
			Release: func(ctx context.Context) error {
				_, err := term.Driver().Leave(ctx, driver.LeaveRequest{Ref: j.Entry.Ref})
				return err
			},
		})
		require.NoError(w.t, err)
		c.Cut(d)
		w.receive(h.Context().Done(), "the end of the hold")
		w.count(1, line, "the context ended first: "+d.String())
		c.Heal()
		require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
		w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "the entry goes")
	}
}

// leaks: nothing runs on in the process when a session is over.
func leaks() []testCase {
	return []testCase{
		{"CloseLeavesNoGoroutine", func(w *fixture) {
			noLeak(w, func(o *owner) { require.NoError(w.t, o.end()) })
		}},
		{"AbandonLeavesNoGoroutine", func(w *fixture) { noLeak(w, func(o *owner) { o.Abandon() }) }},
		{"ALostSessionThatIsClosedLeavesNoGoroutine", func(w *fixture) {
			noLeak(w, func(o *owner) {
				w.svc.Expire(w.t, o.ID())
				w.eventually(func() bool { return o.losses() > 0 }, "Gone")
				require.NoError(w.t, o.end())
			})
		}},
		{"CallsGivenUpWhileCutLeaveNoGoroutine", func(w *fixture) { noLeak(w, giveUpWhileCut) }},
		{"CloseWhileCutLeavesNoGoroutine", func(w *fixture) { noLeak(w, closeWhileCut) }},
	}
}

// noLeak opens a session that watches and waits, ends it in some way, and looks
// for what runs on. Ends that leave the session at the service are made up for.
func noLeak(w *fixture, end func(o *owner)) {
	ahead := w.svc.PutForeign(w.t, line, true) // by nobody whose goroutines could be counted
	c := w.client()
	warm := w.openOn(c) // what the backend keeps for its own life is there
	warm.join("warm")
	require.NoError(w.t, warm.end())
	mine := slices.Concat(w.h.Leaks, []goleak.Option{goleak.IgnoreCurrent()})

	o := w.openOn(c)
	own := o.join(line).Entry
	o.armed("ahead", driver.WatchRequest{Ref: ahead})
	_, stop := o.armed("own", driver.WatchRequest{Ref: own.Ref, Own: true})
	rev := o.look(driver.LookRequest{Line: line, Upto: own.Place}).Rev
	o.armed("since", driver.WatchRequest{Ref: ahead, Since: rev})
	stop()
	end(o)

	assert.NoError(w.t, goleak.Find(mine...))
}

func giveUpWhileCut(o *owner) {
	w := o.w
	o.c.Cut(fault.Both)
	ctx := w.within(w.h.TTL / 20)
	_, err := o.Join(ctx, driver.JoinRequest{Line: line})
	assert.Error(w.t, err)
	_, err = o.Look(ctx, driver.LookRequest{Line: line, Upto: 1})
	assert.Error(w.t, err)
	_, err = o.c.Backend().List(ctx, line, 0)
	assert.Error(w.t, err)
	time.Sleep(w.h.TTL / 20)
	o.c.Heal()
	w.settle(err)
	require.NoError(w.t, o.end())
}

func closeWhileCut(o *owner) {
	w := o.w
	o.c.Cut(fault.Both)
	require.Error(w.t, o.close(w.within(w.h.TTL/20)))
	o.c.Heal()
}

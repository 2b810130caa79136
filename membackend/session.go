package membackend

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// memSession is the client's side of a session. It is over in this process when over is closed,
// and at the service when its lease is gone. Neither follows from the other: an abandoned session
// expires later, and a client learns late that its session has expired.
type memSession struct {
	c   *Client
	cfg driver.Config

	// lease is at the service, which alone changes it; nil: an observer, which has none, makes no
	// entries and is never lost.
	lease *lease
	id    string
	since int64

	// timeout is how long an attempt waits until another copy is sent: the constant, or period if
	// that is shorter.
	timeout time.Duration

	// period is the time between renewals: a quarter of the time to the deadline, so that several
	// can be lost before a hold is, but at least minPeriod. 0: an observer.
	period time.Duration

	// over is closed when the session is lost, abandoned or closed. It ends all requests but those
	// of Close and Settle, which are for what is left behind.
	over chan struct{}

	// inbox makes the calls of Renewed and Gone after a renewal, and those of watches.
	inbox inbox

	// Guarded by the Store's mutex.
	ended   bool        // over is closed. Never reset
	turn    func() bool // stops the timer of the next renewal; nil: an observer
	watches []*watch    // those that are not over; empty when the session has ended

	// floors has, by queue, the oldest revision that a read may show; "" is for all queues. They
	// only rise. See learned.
	floors map[string]int64
}

// Open makes a session. Its id is "m1" if it is the first of the Store, or "o1" if it is
// an observer, for which Open sends nothing.
func (b backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	st := b.c.st
	if st.o.MaxTTL != 0 && cfg.TTL > st.o.MaxTTL {
		return nil, fmt.Errorf("memory: open session: %w: TTL %s is above %s", driver.ErrRefused, cfg.TTL, st.o.MaxTTL)
	}
	var l *lease
	if !cfg.Observer {
		var at driver.Instant
		var err error
		l, at, err = b.grant(ctx, max(cfg.TTL, MinTTL))
		if err != nil {
			return nil, fmt.Errorf("memory: open session: %w", err)
		}
		cfg.Renewed(at, l.ttl, period(cfg, l.ttl))
	}
	s := &memSession{c: b.c, cfg: cfg, lease: l, timeout: timeout, over: make(chan struct{}), floors: make(map[string]int64)}
	st.mu.Lock()
	defer st.mu.Unlock()
	s.since = st.since
	if l == nil {
		st.opened++
		s.id = fmt.Sprintf("o%d", st.opened)
	} else {
		s.id, s.period = l.id, period(cfg, l.ttl)
		s.timeout = min(s.period, timeout)
		s.turn = b.c.wire.AfterFunc(s.period, s.Renew)
	}
	b.c.sessions = append(b.c.sessions, s)
	return s, nil
}

// grant has the service make a lease, and returns when it was asked to. The copies make one lease,
// and the one that made it counts as the renewal: the service counts from its arrival. If ctx ends
// first, the lease stays until it expires. In a quarantine, grant waits and asks again.
func (b backend) grant(ctx context.Context, ttl time.Duration) (l *lease, at driver.Instant, err error) {
	st := b.c.st
	for {
		left, _, err := roundTrip(ctx, b.c, request{op: fault.Open, timeout: timeout}, func(sent driver.Instant) time.Duration {
			left := st.until - st.sched.Now()
			if left <= 0 && l == nil {
				l, at = st.grant(ttl), sent
			}
			return left
		})
		if err != nil || left <= 0 {
			return l, at, err
		}
		over := b.c.wire.Now().Add(left)
		if !driver.Sleep(ctx, b.c.wire, left) {
			return nil, 0, fmt.Errorf("%w: in a quarantine for %s more", driver.ErrUnavailable, over.Sub(b.c.wire.Now()))
		}
	}
}

// period returns how long after a renewal the next one is sent.
func period(cfg driver.Config, ttl time.Duration) time.Duration {
	return max((ttl-cfg.Margin(ttl))/4, minPeriod)
}

// ID returns the session's id at the service.
func (s *memSession) ID() string { return s.id }

// Since implements driver.Session.
func (s *memSession) Since() int64 { return s.since }

// Renew sends a renewal and goes on to the next turn without waiting for the answer, so
// that slow answers count too, each from its own sending. One that is lost is not sent again:
// the next turn extends the session further.
func (s *memSession) Renew() {
	st := s.c.st
	st.mu.Lock()
	if s.ended || s.lease == nil {
		st.mu.Unlock()
		return
	}
	s.turn()
	s.turn = s.c.wire.AfterFunc(s.period, s.Renew)
	st.mu.Unlock()

	sent := s.c.wire.Now()
	s.c.wire.Send(memory.Request{
		Op: fault.Renew, Session: s.id,
		Launch: func() bool { return true },
		Arrive: func(reply bool) func() {
			st.mu.Lock()
			defer st.mu.Unlock()
			call := func() { s.cfg.Renewed(sent, s.lease.ttl, s.period) }
			if !st.renew(s.lease) {
				call = func() { s.lose(fmt.Errorf("memory: renew session %s: %w", s.id, errNoLease)) }
			}
			if !reply {
				return nil
			}
			return func() { s.inbox.put(call) }
		},
	})
}

// lose reports that the service does not have the session, and then ends the requests that
// are under way, so that the report comes before their errors. Two answers may find that at the
// same moment, and both report it: the contract allows several calls of Gone.
func (s *memSession) lose(err error) {
	s.c.st.mu.Lock()
	ended := s.ended
	s.c.st.mu.Unlock()
	if !ended {
		s.cfg.Gone(err)
		s.finish()
	}
}

// Abandon ends all calls and watches, and the renewals.
func (s *memSession) Abandon() { s.finish() }

// finish ends the session in this process.
func (s *memSession) finish() {
	st := s.c.st
	st.mu.Lock()
	defer st.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	close(s.over)
	if s.turn != nil {
		s.turn()
	}
	for _, w := range slices.Clone(s.watches) {
		w.drop()
	}
	s.c.sessions = slices.DeleteFunc(s.c.sessions, func(o *memSession) bool { return o == s })
}

// Close abandons the session, and sends requests until the service has ended it. That the service
// has no such session any more is no error: nothing of it is left. After an error the service may
// or may not have ended it, and the lease expires, because nothing renews it.
func (s *memSession) Close(ctx context.Context) error {
	s.Abandon()
	if s.lease == nil {
		return nil
	}
	_, _, err := do(ctx, s, request{op: fault.Close, of: s.id}, nil, func() (struct{}, error) {
		s.c.st.end(s.lease)
		return struct{}{}, nil
	})
	return err
}

// Join sends copies of one attempt. Its errors, by what is known:
//
//	ctx or the session has ended, and no copy was sent  nothing was done, and nothing will be
//	the same, and a copy may arrive                     PendingError: Settle makes the attempt void
//	the service has refused                             that: nothing was done by any copy
//
// A Settle outlives the session, and works for as long as the service is there: an entry that it
// does not find has ended, and a copy that arrives later finds the attempt void.
func (s *memSession) Join(ctx context.Context, reqs ...driver.JoinRequest) ([]driver.Joined, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	reqs = slices.Clone(reqs)
	r := request{op: fault.Join, of: fmt.Sprintf("%q and %d more", reqs[0].Queue, len(reqs)-1), caller: ctx, over: s.over}
	queues := make([]string, 0, len(reqs))
	for _, req := range reqs {
		if s.lease == nil || len(reqs) > maxJoin || slices.Contains(queues, req.Queue) || len(req.Data) > maxData || len(req.Detail) > maxDetail {
			return nil, fmt.Errorf("memory: join %s: %w", r.of, driver.ErrRefused)
		}
		queues = append(queues, req.Queue)
	}
	at := &attempt{reqs: reqs}
	a, unknown, err := do(ctx, s, r, queues, func() ([]driver.Joined, error) { return s.c.st.join(s.lease, at) })
	if unknown {
		return nil, &driver.PendingError{Err: err, Settle: func(ctx context.Context) error {
			_, _, err := do(ctx, s, request{op: fault.Settle, of: r.of, caller: r.caller}, queues, func() (struct{}, error) {
				s.c.st.settle(at)
				return struct{}{}, nil
			})
			return err
		}}
	}
	for i := range a.v {
		a.forget(reqs[i].Ops, a.v[i].Ops)
	}
	return a.v, err
}

// Leave deletes all entries in one request. A repeated answer does not show which copy has
// deleted them:
//
//	the service found  its answer  the same, to another copy  Terse: its answer after other copies
//	the entry          Deleted     Unclear                    Deleted
//	no entry           WasGone     WasGone                    Unclear
//
// The last column is of services that cannot distinguish a deletion by a copy whose answer was lost
// from one by another client.
func (s *memSession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	reqs = slices.Clone(reqs)
	queues := make([]string, 0, len(reqs))
	for _, req := range reqs {
		queues = append(queues, req.Ref.Queue)
	}
	copies := 0
	a, _, err := do(ctx, s, request{op: fault.Leave, of: fmt.Sprint(reqs[0].Ref), over: s.over, copies: &copies}, queues,
		func() ([]driver.Left, error) { return s.c.st.leave(s.lease, reqs) })
	for i := range a.v {
		switch {
		case a.repeated:
			a.v[i] = max(a.v[i], driver.Unclear)
		case copies > 1 && s.c.st.o.Terse: // a copy without an answer may have deleted them
			a.v[i] = min(a.v[i], driver.Unclear)
		}
	}
	return a.v, err
}

// Read is one request. It shows nothing older than what the session has learned of the queue when
// Read is called, and with Fresh nothing older than the call. For a kind that is not Stale
// everything is as of the request's arrival, and the floor has no effect.
func (s *memSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	st := s.c.st
	r := request{op: fault.Read, of: req.Queue, over: s.over}
	if req.Upto == 0 {
		r.op = fault.Names
	}
	st.mu.Lock()
	floor := max(s.floors[""], s.floors[req.Queue])
	if req.Fresh {
		floor = st.rev
	}
	st.mu.Unlock()
	var rev int64 // guarded by the Store's mutex
	a, _, err := do(ctx, s, r, nil, func() (v driver.View, err error) {
		v, rev = st.read(req, floor)
		return v, nil
	})
	if err == nil {
		s.learned(rev, req.Queue)
	}
	return a.v, err
}

// Update is one request. What the contract rules out is refused here or by the service, so that a
// caller that relies on a lenient backend fails here. All copies have one number, which is higher
// than that of every earlier call.
func (s *memSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	st := s.c.st
	r := request{op: fault.Update, of: fmt.Sprintf("%q", req.Queue), over: s.over}
	ofEntry := req.Marks != 0 || req.Data != nil || req.Detail != nil
	bound := slices.ContainsFunc(req.Ops, func(op driver.Op) bool { return op.Bound })
	if ofEntry && req.Entry.Zero() || bound && s.lease == nil || len(req.Data) > maxData {
		return nil, fmt.Errorf("memory: update %s: %w", r.of, driver.ErrRefused)
	}
	if !req.Entry.Zero() {
		r.of = fmt.Sprint(req.Entry)
	}
	req.Ops = slices.Clone(req.Ops)
	number := st.updates.Add(1)
	a, _, err := do(ctx, s, r, []string{req.Queue}, func() ([]driver.Result, error) { return st.update(s.lease, number, req) })
	a.forget(req.Ops, a.v)
	return a.v, err
}

// Names is one request, about all queues: no later read of any of them may be older.
func (s *memSession) Names(ctx context.Context, prefix string) ([]string, error) {
	a, _, err := do(ctx, s, request{op: fault.Names, of: prefix, over: s.over}, []string{""},
		func() ([]string, error) { return s.c.st.names(prefix), nil })
	return a.v, err
}

// inbox makes the calls of a session's callbacks, one at a time, in a goroutine that ends
// when there is none to make. The end of the session does not empty it: a renewal that was
// answered before is still reported, and a watch that is over drops its events itself.
type inbox struct {
	mu sync.Mutex // taken last

	// calls are in the order in which they are made. The goroutine runs exactly while there is
	// one, and the first is the one that it makes at this moment.
	calls []func()
}

// put adds a call. It may be called while any mutex is held.
func (b *inbox) put(call func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, call)
	if len(b.calls) == 1 {
		go b.run()
	}
}

// run makes the calls until none is left. It takes out a call when that has returned, and not
// before, so that put starts no second goroutine meanwhile.
func (b *inbox) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ; len(b.calls) > 0; b.calls = b.calls[1:] {
		call := b.calls[0]
		b.mu.Unlock()
		call()
		b.mu.Lock()
	}
}

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

// memSession is one session, as its client knows it. Its requests are in session.go.
type memSession struct {
	c     *Client
	cfg   driver.Config
	lease *lease // at the service, which alone changes it; nil: an observer
	id    string

	patience time.Duration // for an answer, until the request is sent again
	period   time.Duration // between renewals
	over     chan struct{} // closed when the session is lost, abandoned or closed
	inbox    inbox

	// Guarded by the Store's mutex.
	ended   bool        // over is closed
	turn    func() bool // stops the timer of the next renewal; nil: an observer
	watches []*watch
	floors  map[string]int64 // see learned
}

// Open makes a session. Its id is "m1" if it is the first of the Store, or "o1" if it is
// an observer, for which Open sends nothing.
func (b backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	st := b.c.st
	// The copies make one lease, and the one that made it counts as the renewal: the
	// service counts from its arrival.
	var l *lease // guarded by the Store's mutex
	var at driver.Instant
	if !cfg.Observer {
		_, _, err := roundTrip(ctx, b.c, request{op: fault.Open, patience: patience}, func(sent driver.Instant) struct{} {
			if l == nil {
				l, at = st.grant(max(cfg.TTL, MinTTL)), sent
			}
			return struct{}{}
		})
		if err != nil {
			return nil, fmt.Errorf("memory: open session: %w", err)
		}
		cfg.Renewed(at, l.ttl)
	}
	s := &memSession{c: b.c, cfg: cfg, lease: l, patience: patience, over: make(chan struct{}), floors: make(map[string]int64)}
	st.mu.Lock()
	defer st.mu.Unlock()
	if l == nil {
		st.opened++
		s.id = fmt.Sprintf("o%d", st.opened)
	} else {
		s.id, s.period = l.id, max((l.ttl-cfg.Margin(l.ttl))/4, shortest)
		s.patience = min(s.period, patience)
		s.turn = b.c.wire.AfterFunc(s.period, s.Renew)
	}
	b.c.sessions = append(b.c.sessions, s)
	return s, nil
}

// ID returns the session's id at the service.
func (s *memSession) ID() string { return s.id }

// Renew sends a renewal and goes on to the next turn without waiting for the answer, so
// that slow answers count too, each from its own sending.
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
			call := func() { s.cfg.Renewed(sent, s.lease.ttl) }
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
// are under way: their callers learn of it from what is reported, and not from an error.
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

// finish is the end of the session in this process.
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

// Close abandons the session and asks until the service has ended it.
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

// inbox calls what a session was opened and watched with, one call at a time, in a
// goroutine that ends when there is none to make.
type inbox struct {
	mu      sync.Mutex // the innermost one
	calls   []func()
	running bool
}

// put adds a call. It may be called while any mutex is held.
func (b *inbox) put(call func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, call)
	if !b.running {
		b.running = true
		go b.run()
	}
}

func (b *inbox) run() {
	for {
		b.mu.Lock()
		calls := b.calls
		b.calls, b.running = nil, len(calls) > 0
		b.mu.Unlock()
		if len(calls) == 0 {
			return
		}
		for _, call := range calls {
			call()
		}
	}
}

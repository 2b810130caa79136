package membackend

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// shortest is the least time between renewals, and until a request is sent
// again.
const shortest = time.Millisecond

// Open makes a session. Its id is "m1" for the first of the Store, and so on.
func (b backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	type granted struct {
		l    *lease
		sent driver.Instant
	}
	var g granted
	// The copies make one lease, and the one that made it is the proof: the
	// service counts from its arrival.
	got, _, err := roundTrip(ctx, b.c, request{op: fault.Open, patience: patience}, func(sent driver.Instant) granted {
		if g.l == nil {
			g = granted{b.c.st.grant(max(cfg.TTL, MinTTL)), sent}
		}
		return g
	})
	if err != nil {
		return nil, fmt.Errorf("memory: open session: %w", err)
	}
	window := cfg.Window
	if window <= 0 {
		window = got.l.ttl
	}
	s := &memSession{
		c:        b.c,
		cfg:      cfg,
		lease:    got.l,
		id:       got.l.id,
		patience: min(max(window/4, shortest), patience),
		period:   max(window/4, shortest),
		over:     make(chan struct{}),
		quit:     make(chan struct{}),
		finished: make(chan struct{}),
		wake:     make(chan struct{}, 1),
		leaving:  make(map[driver.Ref]*departure),
	}
	s.prove(got.sent)
	st := b.c.st
	st.mu.Lock()
	defer st.mu.Unlock()
	b.c.sessions = append(b.c.sessions, s)
	s.turn = clock(b).after(s.period, s.renew)
	go s.tellAll() // ends with Abandon or Close, which waits for it
	return s, nil
}

// ID returns the session's id at the service.
func (s *memSession) ID() string { return s.id }

// Prove sends a renewal now.
func (s *memSession) Prove() { s.renew() }

// renew sends a renewal and goes on to the next turn without waiting for the
// answer, so that slow answers are proofs too, each from its own sending.
func (s *memSession) renew() {
	st := s.c.st
	st.mu.Lock()
	if s.lost || s.abandoned {
		st.mu.Unlock()
		return
	}
	s.turn.stop()
	s.turn = clock{s.c}.after(s.period, s.renew)
	st.mu.Unlock()

	sent := clock{s.c}.Now()
	s.c.send(&message{op: fault.Renew, session: s.id, carry: s.receive, apply: func() func() {
		if st.leases[s.id] != s.lease {
			return func() { s.lose(fmt.Errorf("memory: renew session %s: %w", s.id, errNoLease)) }
		}
		st.renew(s.lease)
		return func() { s.prove(sent) }
	}})
}

// prove reports a proof.
func (s *memSession) prove(sent driver.Instant) {
	if s.cfg.Proof != nil && !s.isOver() {
		s.cfg.Proof(sent, s.lease.ttl)
	}
}

// lose reports that the service does not have the session.
func (s *memSession) lose(err error) {
	s.c.st.mu.Lock()
	if s.lost || s.abandoned {
		s.c.st.mu.Unlock()
		return
	}
	s.lost = true
	close(s.over)
	s.turn.stop()
	s.c.st.mu.Unlock()
	if s.cfg.Gone != nil {
		s.cfg.Gone(err)
	}
}

func (s *memSession) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// Abandon stops renewing and telling. Leave, Look and Settle still work.
func (s *memSession) Abandon() {
	st := s.c.st
	st.mu.Lock()
	defer st.mu.Unlock()
	if s.abandoned {
		return
	}
	s.abandoned = true
	if !s.lost {
		close(s.over)
	}
	close(s.quit)
	s.turn.stop()
	for _, w := range slices.Clone(s.watches) {
		w.drop()
	}
	s.inbox = nil
	s.c.sessions = slices.DeleteFunc(s.c.sessions, func(o *memSession) bool { return o == s })
}

// Close abandons the session and asks until the service has ended it. It waits
// for a callback that is running, so it must not be called from one.
func (s *memSession) Close(ctx context.Context) error {
	s.Abandon()
	st := s.c.st
	_, _, err := roundTrip(ctx, s.c, request{op: fault.Close, of: s.id, session: s.id, patience: s.patience}, func(driver.Instant) struct{} {
		st.end(s.lease)
		return struct{}{}
	})
	select {
	case <-s.finished:
	case <-ctx.Done():
	}
	if err != nil {
		return fmt.Errorf("memory: close session %s: %w", s.id, err)
	}
	return nil
}

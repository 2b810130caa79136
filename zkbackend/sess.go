package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// sess is one ZooKeeper session, over all connections that it has in its life.
//
// Its goroutines: run makes one connection after another and proves; the
// dispatcher calls back; readers of lines, and those that arm watches, end with
// their request. All end with Abandon or Close, and Close waits for them.
type sess struct {
	b      *backend
	cfg    driver.Config
	ctx    context.Context // ends when nothing more is to be asked for
	cancel context.CancelFunc
	wg     sync.WaitGroup
	left   chan struct{} // closed when run has ended
	prove  chan struct{}
	out    dispatcher
	outage driver.Outage // run's alone

	// Set before Open returns, and never changed.
	who   identity
	ttl   time.Duration // as the servers count it
	proof Proof         // never ProofAuto
	seal  *seal         // nil if entries cannot be sealed

	mu        sync.Mutex
	cur       *link         // nil while there is none
	changed   chan struct{} // closed when cur changes
	zxid      int64         // the newest transaction seen on any link
	next      int           // which server comes next
	spare     *link         // what run has left for Close
	closing   bool
	gone      bool // the service has no such session any more
	drained   bool // nothing more is run in the background
	ended     driver.Instant
	epoch     int                  // how many links were lost
	watches   map[string]*watched  // by path
	lists     map[string]*listing  // by folder
	marks     map[string]string    // the newest mark known of a folder
	leaving   map[string]bool      // own entries that are being given back
	doubts    map[string]*doubtful // by folder: the entry whose word was believed last
	doubting  bool                 // ponder will be called
	unsure    map[driver.Ref]bool  // a delete was not answered
	leased    map[string]bool      // foreign entries that are known to have a session or not
	mixed     map[string]bool      // lines with a mixed protocol, which the log was told
	bells     map[string]*bell     // by the folder
	mine      map[mark]*notes      // own entries, from before they are made until they have gone
	late      []lateJoin           // what may still come of joins that were not there
	expecting bool                 // lookForLate will be called
	limits    map[string]int64     // by line: the limit that it was seen to have
	crowded   map[string]bool      // by line: somebody was ahead when it was joined last
}

var _ driver.Session = (*sess)(nil)

func (b *backend) newSess(cfg driver.Config) *sess {
	s := &sess{
		b: b, cfg: cfg, left: make(chan struct{}), prove: make(chan struct{}, 1), changed: make(chan struct{}),
		next:    b.shuffle(),
		watches: map[string]*watched{}, lists: map[string]*listing{}, marks: map[string]string{},
		leaving: map[string]bool{}, doubts: map[string]*doubtful{},
		unsure: map[driver.Ref]bool{}, leased: map[string]bool{}, mixed: map[string]bool{},
		bells: map[string]*bell{}, mine: map[mark]*notes{}, limits: map[string]int64{}, crowded: map[string]bool{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.out.over = s.ctx.Done()
	return s
}

// ID implements driver.Session: the number as ZooKeeper's own tools show it.
func (s *sess) ID() string { return sessionName(s.who.id) }

func sessionName(id int64) string { return "0x" + strconv.FormatUint(uint64(id), 16) }

// run keeps the session connected and proven until it ends.
func (s *sess) run(l *link) {
	defer close(s.left)
	for {
		s.publish(l)
		s.pulse(l)
		if s.keep(l) {
			return
		}
		s.unpublish(l)
		l.end(errBye)
		if s.ctx.Err() != nil {
			return
		}
		s.out.post(s.breakWatches)
		if l = s.redial(l.cause); l == nil {
			return
		}
	}
}

// redial makes the next link after one that ended with the error why. It returns
// nil if the session is over.
func (s *sess) redial(why error) *link {
	for {
		// The servers accepted the login before, and refuse it now. The session tries
		// again for as long as it lives.
		if errors.Is(why, driver.ErrDenied) {
			s.report(why)
			driver.Sleep(s.ctx, s.b.clock, s.ttl/8)
		}
		l, err := s.dial(s.ctx)
		switch {
		case err == nil && l.hello.ttl < s.ttl:
			l.end(errBye)
			s.shortened(l)
			return nil
		case err == nil && !s.checkAlone(s.ctx, l):
			l.end(errBye)
			if s.ctx.Err() != nil {
				return nil
			}
			if err = l.cause; !errors.Is(err, driver.ErrDenied) {
				driver.Sleep(s.ctx, s.b.clock, leastDial)
			}
		case err == nil:
			if l.unproven = s.proof == ProofQuorum; !l.unproven {
				s.cfg.Proof(l.sent, s.ttl)
			}
			return l
		case errors.Is(err, errExpired):
			s.expired(err)
			return nil
		case s.ctx.Err() != nil:
			return nil
		}
		why = err
	}
}

// report takes in that the session could not connect, or with nil that a server has
// answered a heartbeat, and logs it if it is due. Only run calls it.
func (s *sess) report(err error) {
	now := s.b.clock.Now()
	if err != nil {
		if log, d := s.outage.Failed(now); log {
			s.cfg.Logger.Warn("zookeeper: cannot reconnect, trying again", "session", s.ID(), "for", d, "err", err)
		}
	} else if log, d := s.outage.Over(now); log {
		s.cfg.Logger.Warn("zookeeper: connected again", "session", s.ID(), "after", d)
	}
}

// errEnsemble: the proofs of the session are unsafe from now on.
var errEnsemble = errors.New("zookeeper: a standalone server has joined an ensemble, where the session needs another proof")

// checkAlone reports whether the session may use a new link. A session that found
// its server alone when it was opened asks on every new connection, because the
// server may have been started again as one of an ensemble. Then the session ends.
func (s *sess) checkAlone(ctx context.Context, l *link) bool {
	if s.proof != ProofPing || s.b.opts.Proof == ProofPing {
		return true
	}
	ctx, stop := driver.WithTimeout(ctx, s.b.clock, s.patience())
	defer stop()
	alone, err := s.b.standalone(ctx, l)
	if err == nil && !alone && ctx.Err() == nil {
		s.cancel()
		s.cfg.Gone(fmt.Errorf("%w: %s", errEnsemble, l.server))
	}
	return err == nil && alone
}

// shortened takes in that a server gives the session less time than was promised
// until now: then it may end before the deadline that was told. What is held is
// told at once; the session at the service is left alone.
func (s *sess) shortened(l *link) {
	s.cancel()
	s.cfg.Gone(fmt.Errorf("%w: %s gives it %v, and %v was promised: the servers differ in maxSessionTimeout",
		errShortened, l.server, l.hello.ttl, s.ttl))
}

// publish lets requests use the link, and arms the watches on it.
func (s *sess) publish(l *link) {
	s.mu.Lock()
	s.cur = l
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	s.armAll()
}

// unpublish takes the link out of use.
func (s *sess) unpublish(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cur = nil
	s.epoch++
	for _, w := range s.watches {
		w.armed, w.busy, w.fired = false, false, false
		s.drop(w)
	}
	for _, b := range s.bells {
		b.armed, b.busy, b.fired = false, false, false
		s.takeDown(b)
	}
	s.zxid = max(s.zxid, l.zxid.Load())
}

// goes runs f in a goroutine that Close waits for; false if it is too late for
// that. The caller holds s.mu.
func (s *sess) goes(f func()) bool {
	if s.drained {
		return false
	}
	s.wg.Go(f)
	return true
}

// keep leaves a link that works to Close, if that has begun.
func (s *sess) keep(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing || s.gone {
		return false
	}
	s.spare, s.cur = l, nil
	return true
}

// link returns the link in use, or waits for one.
func (s *sess) link(ctx context.Context) (*link, error) {
	for {
		s.mu.Lock()
		l, changed := s.cur, s.changed
		s.mu.Unlock()
		switch {
		case s.ctx.Err() != nil:
			return nil, driver.ErrSessionOver
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case l != nil:
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
	}
}

// expired takes in that the service has no such session any more.
func (s *sess) expired(err error) {
	s.mu.Lock()
	first := !s.gone
	s.gone = true
	s.mu.Unlock()
	s.cancel()
	if first {
		s.cfg.Gone(err)
	}
}

// isGone says that nothing of the session can be at the service.
func (s *sess) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// Prove implements driver.Session.
func (s *sess) Prove() {
	select {
	case s.prove <- struct{}{}:
	default:
	}
}

// Abandon implements driver.Session. The connection is cut without a farewell,
// which would end the session at the service.
func (s *sess) Abandon() {
	s.mu.Lock()
	if s.ended == 0 {
		s.ended = s.b.clock.Now()
	}
	s.mu.Unlock()
	s.cancel()
}

// Close implements driver.Session.
func (s *sess) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.cancel()
	<-s.left
	err := s.bid(ctx)
	s.mu.Lock()
	s.drained = true
	s.mu.Unlock()
	s.wg.Wait()
	s.out.wait()
	s.b.forget(s)
	if err != nil {
		return fmt.Errorf("zookeeper: close session %s: %w", s.ID(), err)
	}
	return nil
}

// bid ends the session at the service. Nil means that it is certain.
func (s *sess) bid(ctx context.Context) error {
	s.mu.Lock()
	l, gone := s.spare, s.gone
	s.spare = nil
	s.mu.Unlock()
	switch {
	case gone:
		if l != nil {
			l.end(errBye)
		}
		return nil
	case l != nil && l.farewell(ctx, s.ttl/4):
		s.setGone()
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
	if err := s.part(ctx); err != nil && !errors.Is(err, errExpired) {
		return err
	}
	s.setGone()
	return nil
}

func (s *sess) setGone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
}

// connected says whether requests can be sent at once.
func (s *sess) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur != nil
}

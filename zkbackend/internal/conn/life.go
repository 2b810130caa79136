package conn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// observerTTL is the session timeout that an Observer asks for.
const observerTTL = 10 * time.Second

// Open opens a session on any of the servers. Its error wraps driver.ErrDenied if a login is refused,
// driver.ErrRefused if the granted timeout leaves too short a trust window, and driver.ErrUnavailable,
// with the reason for each address, if ctx ends first. After an error nothing of the session stays at
// the service for longer than its TTL.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	s := newSession(cfg)
	c, err := s.dial(ctx)
	if err != nil {
		s.cancel()
		return nil, err
	}
	if err := s.begin(c); err != nil {
		c.end(err)
		ctx, stop := driver.WithTimeout(ctx, cfg.Clock, leastDial)
		defer stop()
		_ = s.leave(ctx) // or it expires
		s.cancel()
		return nil, err
	}
	s.renewed(c.sent) // the handshake of a new session is a commit
	go s.run(c)       //nolint:contextcheck // the session goes on when ctx has ended
	return s, nil
}

func newSession(cfg Config) *Session {
	if cfg.Auth == nil {
		cfg.Auth = func() []Auth { return nil }
	}
	if cfg.Observer {
		cfg.TTL, cfg.Proof = observerTTL, ProofPing
		cfg.Renewed, cfg.Gone = func(driver.Instant, time.Duration, time.Duration) {}, func(error) {}
	}
	s := &Session{
		cfg: cfg, ended: make(chan struct{}), renew: make(chan struct{}, 1),
		pace: pace{proof: cfg.Proof, tick: cfg.TickTime, ttl: cfg.TTL},
	}
	s.out.clock = cfg.Clock
	s.dialer.cfg, s.dialer.next = &s.cfg, rand.N(len(cfg.Servers))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.watches = watches{out: &s.out, over: s.ctx.Done(), all: map[string][]*watch{}}
	return s
}

// dial makes a connection to any server, and tries until ctx ends. It gives up at once where another server
// cannot help: the service has no such session any more (errExpired), or, on the first connection, refuses a login.
func (s *Session) dial(ctx context.Context) (c *connection, err error) {
	err = s.dialer.each(ctx, s.pace.ttl, s.longestPause(), func(ctx context.Context, socket net.Conn, addr string) (err error) {
		c, err = s.connect(ctx, socket, addr)
		return err
	})
	return c, err
}

// longestPause is the longest pause between attempts. A session that may still be there must not expire meanwhile.
func (s *Session) longestPause() time.Duration {
	if s.Owner() == 0 {
		return maxPause
	}
	return min(maxPause, s.pace.ttl/8)
}

// connect does the handshake on a new socket, and makes a connection of it. What the session shows in the handshake
// decides what it gets:
//
//	self   zxid   the handshake
//	0      0      asks for a new session. This is the first connection: connect waits for the answers to the
//	              logins, and learns whether the server is alone and what the session's first transaction is
//	set    set    continues the session, at no server that has seen less than it has. connect waits for nothing
//
// An Observer whose session has expired asks for a new one, in the first way.
func (s *Session) connect(ctx context.Context, socket net.Conn, addr string) (*connection, error) {
	s.mu.Lock()
	self, zxid := s.self, s.zxid
	s.mu.Unlock()
	sent := s.cfg.Clock.Now()
	h, err := shakeHands(socket, self, s.pace.ttl, zxid)
	switch {
	case err != nil:
		return nil, err
	case self.id == 0 && h.id == 0:
		return nil, fmt.Errorf("%w: no session was given", errHandshake)
	case self.id != 0 && h.id != self.id: // 0, or a session that is not ours
		return nil, finalError{errExpired}
	}
	c := newConnection(socket, addr, h, &s.out, s.watches.event, s.expired)
	c.sent = sent
	c.granted.born = self.born
	c.zxid.Store(zxid)
	c.prepare(s.cfg.Auth())
	if zxid != 0 {
		return c, nil
	}
	// On the first connection the answer to this request comes behind those to the logins.
	c.alone, err = c.standalone(ctx)
	if err != nil {
		c.end(err)
		if driver.Incurable(err) {
			err = finalError{err}
		}
		return nil, err
	}
	c.granted.born = c.zxid.Load()
	return c, nil
}

// begin sets the identity and the pace of the session from the first connection. The error means that the
// granted timeout is too short.
func (s *Session) begin(c *connection) error {
	s.self = c.granted.identity
	s.pace.ttl = c.granted.ttl
	if s.cfg.Observer {
		return nil
	}
	if s.pace.ttl != s.cfg.TTL {
		s.cfg.Logger.Warn("zookeeper: the server granted a different session timeout than requested; the deadline follows the granted one",
			"session", s.ID(), "asked", s.cfg.TTL, "given", s.pace.ttl)
	}
	if s.pace.proof == ProofAuto {
		s.standalone = c.alone && len(s.cfg.Servers) == 1
		s.pace.proof = ProofSync
		if s.standalone {
			s.pace.proof = ProofPing
		}
	}
	return s.pace.tooShort(s.cfg.TTL, s.cfg.Margin(s.pace.ttl))
}

// run keeps the session connected and renewed until it is over. When a connection has ended, the order matters: its
// requests wait again (takeBack) before its watches report Lost, so that what a callback sends then goes behind them.
func (s *Session) run(c *connection) {
	defer close(s.ended)
	defer s.out.end(driver.ErrSessionOver)
	for ; c != nil; c = s.redial(c.cause) {
		s.keepAlive(c)
		c.end(errUnneeded)
		if c.used || c.served && s.cfg.Clock.Now().Sub(c.sent) >= leastDial {
			s.dialer.succeeded()
		}
		s.mu.Lock()
		s.zxid = max(s.zxid, c.zxid.Load(), 1)
		s.mu.Unlock()
		s.out.takeBack(c)
		s.watches.lost()
	}
}

// redial makes the next connection. The last one ended because of why. It returns nil when the session is over.
//
//	the attempt                                   what follows
//	a connection, and resume accepts it           it is the next one
//	a connection, and resume does not             another attempt, or the session is over
//	a login is refused                            a pause of TTL/8: the servers accepted it before
//	the service has no such session               the session is over; an Observer asks for a new one
//	none within the TTL, of an Observer           it asks for a new one: see expired
//
// Without an Observer the attempts go on until the session is over, which its deadline decides above.
func (s *Session) redial(why error) *connection {
	for s.ctx.Err() == nil {
		if errors.Is(why, driver.ErrDenied) {
			log, d := s.outage.Failed(s.cfg.Clock.Now())
			if log {
				s.cfg.Logger.Warn("zookeeper: cannot reconnect, trying again", "session", s.ID(), "for", d, "err", why)
			}
			driver.Sleep(s.ctx, s.cfg.Clock, s.pace.ttl/8)
		}
		ctx, stop := s.ctx, context.CancelFunc(func() {})
		if s.cfg.Observer {
			ctx, stop = driver.WithTimeout(s.ctx, s.cfg.Clock, s.pace.ttl)
		}
		c, err := s.dial(ctx)
		stop()
		switch {
		case err == nil:
			err = s.resume(c)
			if err == nil {
				return c
			}
			c.end(err)
			err = c.cause
		case errors.Is(err, errExpired), s.cfg.Observer && errors.Is(err, driver.ErrUnavailable) && s.ctx.Err() == nil:
			s.expired(err)
		}
		why = err
	}
	return nil
}

// resume returns an error if the session cannot go on with a new connection. It ends the session where no
// other connection can help.
//
//	the connection                                     the session
//	of an Observer                                     goes on, perhaps with another identity
//	its server grants a shorter timeout                ends: it can expire before the deadline that renewals
//	                                                   have promised
//	the server was alone, and is not any more          ends: its renewals have proved themselves, and in an
//	                                                   ensemble they do not
//	the server was alone, and does not answer          goes on with another connection
//	otherwise                                          goes on; the handshake renews it at once where a
//	                                                   heartbeat proves itself, or else with the first one
func (s *Session) resume(c *connection) error {
	switch {
	case s.cfg.Observer:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.self = c.granted.identity
		return nil
	case c.granted.ttl < s.pace.ttl:
		return s.end(fmt.Errorf("%w: %s grants %v instead of %v: the servers differ in maxSessionTimeout",
			errShortened, c.addr, c.granted.ttl, s.pace.ttl))
	case s.standalone:
		ctx, stop := driver.WithTimeout(s.ctx, s.cfg.Clock, s.pace.timeout())
		defer stop()
		still, err := c.standalone(ctx)
		switch {
		case err != nil:
			return err
		case !still:
			return s.end(fmt.Errorf("%w: %s", errEnsemble, c.addr))
		}
	}
	c.unproven = s.pace.proof != ProofPing
	if !c.unproven {
		s.renewed(c.sent)
	}
	return nil
}

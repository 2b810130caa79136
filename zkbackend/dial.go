package zkbackend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// leastDial is the least time that one server gets to answer.
const leastDial = 250 * time.Millisecond

// dial makes a link to any server, for as long as ctx lets it. It gives up at
// once where another server cannot help: errExpired, and a login that was
// refused.
func (s *sess) dial(ctx context.Context) (l *link, err error) {
	err = s.tour(ctx, func(ctx context.Context, server, addr string) (err error) {
		s.mu.Lock()
		zxid := s.zxid
		s.mu.Unlock()
		l, err = dialing{
			b: s.b, who: s.who, ttl: s.timeout(), zxid: zxid, events: s.event, auth: s.auth(),
		}.dial(ctx, server, addr)
		return err
	})
	return l, err
}

// part ends the session at the service, at any server that answers in time. It
// returns nil, or errExpired, if it is certain that there is none any more.
func (s *sess) part(ctx context.Context) error {
	return s.tour(ctx, func(ctx context.Context, server, addr string) error {
		socket, keep, err := s.b.bounded(ctx, server, addr)
		if err != nil {
			return err
		}
		defer func() { _ = socket.Close() }()
		defer keep()
		return orEnd(ctx, bidFarewell(socket, s.who, s.timeout()))
	})
}

// timeout is the session's, or what it will be asked for.
func (s *sess) timeout() time.Duration {
	if s.ttl == 0 {
		return s.cfg.TTL
	}
	return s.ttl
}

// tour tries f at one address of the servers after the other until it succeeds,
// or fails in a way in which it would elsewhere too, or ctx ends. The context of f
// ends when one address has taken too long.
func (s *sess) tour(ctx context.Context, f func(ctx context.Context, server, addr string) error) error {
	failures := map[string]error{}
	for pass := 0; ; pass++ {
		for range len(s.b.servers) {
			s.mu.Lock()
			server := s.b.servers[s.next%len(s.b.servers)]
			s.next++
			s.mu.Unlock()
			for _, addr := range s.b.resolve(ctx, server) {
				one, cancel := context.WithTimeout(ctx, max(s.timeout()/8, leastDial)<<min(pass, 2))
				err := f(one, server, addr)
				cancel()
				switch {
				case err == nil, errors.Is(err, errExpired), errors.Is(err, driver.ErrDenied):
					return err
				case ctx.Err() != nil:
					return s.b.unreachable(context.Cause(ctx), failures)
				}
				if why, ok := errors.AsType[net.Error](err); failures[addr] == nil || !ok || !why.Timeout() {
					failures[addr] = err // that it took too long says less than an earlier reason
				}
			}
		}
		d := 10 * time.Millisecond << min(pass, 5)
		if !driver.Sleep(ctx, s.b.clock, d/2+rand.N(d)) {
			return s.b.unreachable(context.Cause(ctx), failures)
		}
	}
}

// resolve returns the addresses of a server: a name may stand for several, and
// each of them may be the one that does not answer.
func (b *backend) resolve(ctx context.Context, server string) []string {
	host, port, err := net.SplitHostPort(server)
	if err != nil || net.ParseIP(host) != nil || b.ownDial {
		return []string{server}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil || len(addrs) == 0 {
		return []string{server} // the dialer's error is as good
	}
	for i, a := range addrs {
		addrs[i] = net.JoinHostPort(a, port)
	}
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return addrs
}

// unreachable describes why no server could be had, one by one.
func (b *backend) unreachable(cause error, failures map[string]error) error {
	all := []error{fmt.Errorf("%w: no answer from %s: %w", driver.ErrUnavailable, strings.Join(b.servers, ", "), cause)}
	for addr, err := range failures {
		all = append(all, fmt.Errorf("%s: %w", addr, err))
	}
	return driver.JoinErrors(all...)
}

// shuffle returns where in the list of servers a session begins, so that not
// all are on the same one.
func (b *backend) shuffle() int { return rand.N(len(b.servers)) }

// Open implements driver.Backend.
//
//nolint:contextcheck // the visitor's end is not the caller's business
func (b *backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.openSess(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("zookeeper: open a session: %w", err)
	}
	b.dismiss()
	return s, nil
}

func (b *backend) openSess(ctx context.Context, cfg driver.Config) (*sess, error) {
	for n := 0; ; n++ {
		s := b.newSess(cfg)
		l, err := s.dial(ctx)
		if err == nil {
			if err = s.begin(ctx, l); err == nil {
				cfg.Proof(l.sent, s.ttl)
				b.remember(s)
				go s.run(l)
				return s, nil
			}
			b.discard(ctx, l)
		}
		s.cancel()
		switch {
		case errors.Is(err, errNoSeal):
		case l != nil && errors.Is(err, driver.ErrUnavailable) && driver.Sleep(ctx, b.clock, 10*time.Millisecond<<min(n, 6)):
			// The connection was lost when it had just been made.
		default:
			return nil, err
		}
	}
}

// lostAtOnce is the error of what was not answered on a connection that has just
// been made. Another may serve.
func lostAtOnce(err error) error {
	return fmt.Errorf("%w: lost the connection at once: %w", driver.ErrUnavailable, err)
}

// discard ends a session that nobody else knows. If that does not work it
// expires.
func (b *backend) discard(ctx context.Context, l *link) {
	if ctx.Err() != nil {
		l.end(errBye)
		return
	}
	bye, stop := driver.WithTimeout(context.WithoutCancel(ctx), b.clock, leastDial)
	defer stop()
	l.farewell(bye, leastDial)
}

// begin takes in what the first link tells of the session.
func (s *sess) begin(ctx context.Context, l *link) error {
	s.who, s.ttl = l.hello.identity, l.hello.ttl
	if s.ttl != s.cfg.TTL {
		s.cfg.Logger.Warn("zookeeper: the server granted a different session timeout than requested; the deadline follows the granted one",
			"session", s.ID(), "asked", s.cfg.TTL, "given", s.ttl)
	}
	if s.proof = s.b.opts.Proof; s.proof == ProofAuto {
		alone, err := s.b.standalone(ctx, l)
		if err != nil {
			return err
		}
		if s.proof = ProofSync; alone {
			s.proof = ProofPing
		}
	}
	if s.cfg.Margin == nil { // a visitor has no entries
		return nil
	}
	if err := s.tooShort(); err != nil {
		return err
	}
	return s.setSeal(ctx, l)
}

// tooShort refuses a TTL of which proofs would leave too little.
func (s *sess) tooShort() error {
	margin := min(s.cfg.Margin(s.ttl), s.ttl*3/4)
	rest := s.ttl - s.lag() - margin
	if rest >= s.ttl/4 {
		return nil
	}
	given, advice := fmt.Sprintf("a session timeout of %v", s.ttl), "use a longer TTL"
	if s.ttl < s.cfg.TTL {
		given += fmt.Sprintf(" (the servers grant no more, %v was requested)", s.cfg.TTL)
		advice = "use the TTL that they grant, or a smaller Margin"
	}
	if s.proof != ProofPing {
		given += fmt.Sprintf(", servers whose tickTime is %v", s.b.opts.TickTime)
		advice += ", or set Options.TickTime if your servers' is smaller"
	}
	return fmt.Errorf("%w: with %s and a margin of %v, the trust window would be %v, less than a quarter of it: %s",
		driver.ErrRefused, given, margin, rest, advice)
}

// standalone says whether the only server configured is the only one there is,
// by what it says of its ensemble. A name may stand for many, so it is asked.
func (b *backend) standalone(ctx context.Context, l *link) (bool, error) {
	if len(b.servers) > 1 {
		return false, nil
	}
	config, err := onLink(ctx, l, func(c *zk.Conn) ([]byte, error) {
		config, _, err := c.Get("/zookeeper/config")
		return config, err
	})
	if outcomeOf(err) == lost || hasCode(err, codeThrottled) {
		return false, lostAtOnce(err)
	}
	// What cannot be read is taken for an ensemble: that is the safe side.
	return err == nil && !strings.Contains(string(config), "server."), nil
}

package conn

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// A heartbeat is a request of this package, because the library does not report when it sent a ping, nor
// that the ping was answered. What an answer proves depends on which server counts the time:
//
// A standalone server extends the session when the heartbeat arrives. So the answer proves the time at which
// the heartbeat was sent.
//
// In an ensemble the leader counts. A follower reports the requests of its clients only in its answers to the
// leader's pings, every half tick. So the answer to a heartbeat in which the leader takes part (a Sync, or a
// commit) proves the heartbeat two before it:
//
//  1. The follower answered the first heartbeat, so it had received it.
//  2. The second heartbeat was sent more than a tick after the answer to the first. So the leader sent a ping
//     between the two. The ping reached the follower before the answer to the second heartbeat.
//  3. The follower answered the ping with a report that has the first heartbeat. The report went to the leader
//     ahead of the third heartbeat, on one ordered stream.
//
// (Learner.ping, LearnerHandler.run and ExpiryQueue of ZooKeeper 3.8.)
//
// A handshake is different: the follower asks the leader, which extends the session, before it answers. But what
// it takes for the leader's answer may be the one to an earlier handshake, which was given up
// (Learner.pendingRevalidations has one handshake for each session), and a deposed leader answers from memory. So a
// handshake proves nothing until the first heartbeat on the same connection is answered, to which the follower
// sends the question ahead. The first handshake of a session is itself a commit.

// pace is how often a session sends heartbeats, and what they prove. It never changes after Open.
//
//	proof                          spacing      period                lag
//	Ping, of a standalone server   0            TTL/8                 TTL/8
//	Sync and Quorum                1.25 ticks   max(TTL/8, spacing)   three periods: a proof is two
//	                                                                  heartbeats old
//
// What is left of the TTL when a renewal comes is TTL less lag and margin: see tooShort.
type pace struct {
	// proof is never ProofAuto. Before begin it can be: then no heartbeat is sent.
	proof Proof

	// tick is what the user has configured, and ttl what the servers have granted.
	tick time.Duration
	ttl  time.Duration
}

// spacing is the least time between the answer to a heartbeat and the next one. In an ensemble a ping of the
// leader must come between them.
func (p pace) spacing() time.Duration {
	if p.proof == ProofPing {
		return 0
	}
	return p.tick + p.tick/4
}

// period is the time from one heartbeat to the next.
func (p pace) period() time.Duration { return max(p.ttl/8, p.spacing()) }

// lag is how old a renewal is, at most, when the next one comes, on a fast network.
func (p pace) lag() time.Duration {
	if p.proof == ProofPing {
		return p.period()
	}
	return 3 * p.period()
}

// timeout is how long a connection may be silent while an answer is due, before it counts as dead. Most of the TTL is
// left then, to find another server.
func (p pace) timeout() time.Duration { return max(p.ttl/4, leastDial) }

// due returns how long it is until the next heartbeat must be sent, or, in a hurry, may be sent. The last one
// was sent at sent, and answered at back. In a hurry the spacing is kept too: a heartbeat that comes too early
// proves nothing.
func (p pace) due(now, sent, back driver.Instant, hurry bool) time.Duration {
	soonest := p.spacing() - now.Sub(back)
	if hurry {
		return soonest
	}
	return max(soonest, p.period()-now.Sub(sent))
}

// tooShort returns an error if the trust window would be less than a quarter of the TTL. requested is the TTL
// that was requested.
func (p pace) tooShort(requested, margin time.Duration) error {
	margin = min(margin, p.ttl*3/4)
	rest := p.ttl - p.lag() - margin
	if rest >= p.ttl/4 {
		return nil
	}
	given, advice := fmt.Sprintf("a session timeout of %v", p.ttl), "use a longer TTL"
	if p.ttl < requested {
		given += fmt.Sprintf(" (the servers grant no more, %v was requested)", requested)
		advice = "use the TTL that they grant, or a smaller Margin"
	}
	if p.proof != ProofPing {
		given += fmt.Sprintf(", servers whose tickTime is %v", p.tick)
		advice += ", or set Options.TickTime if your servers' is smaller (never below the servers' own)"
	}
	return fmt.Errorf("%w: with %s and a margin of %v, the trust window would be %v, less than a quarter of it: %s",
		driver.ErrRefused, given, margin, rest, advice)
}

// heartbeat returns a heartbeat. Any answer to it counts: for a server a refusal is a commit too.
func (p pace) heartbeat() Request {
	if p.proof == ProofQuorum {
		return Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	}
	return Sync()
}

// chain decides what an answered heartbeat proves. Each connection has one: what is known of a follower proves
// nothing at another.
type chain struct {
	// direct: it proves the time of its own sending. Never changed.
	direct bool

	// handshake is when a handshake was sent that the first answer proves; 0 if there is none.
	handshake driver.Instant

	// sent are the times of the last two heartbeats that were answered, the older one first, and links is
	// how many were answered. Invariant: sent[0] counts only if links is at least 2.
	sent  [2]driver.Instant
	links int
}

// answered is called when the heartbeat that was sent at that time is answered, in the order of sending. It returns
// for which time this proves that the service had the session. All heartbeats are on one connection, and each was
// sent at least pace.spacing after the answer to the one before.
//
//	answer    direct   otherwise
//	first     itself   the handshake before it, if there is one
//	second    itself   nothing
//	later     itself   the heartbeat two before
func (c *chain) answered(sent driver.Instant) (proof driver.Instant, ok bool) {
	if c.direct {
		return sent, true
	}
	proof, ok = c.sent[0], c.links >= 2
	if c.links == 0 && c.handshake != 0 {
		proof, ok = c.handshake, true
	}
	c.sent[0], c.sent[1] = c.sent[1], sent
	c.links++
	return proof, ok
}

// keepAlive sends heartbeats on a connection until it is down or the session is over. It fails a connection that
// is silent for too long, so that there is time to find another server.
//
// At most one heartbeat is under way, so its answers come in the order of sending. While one is, the loop wakes up
// four times in a timeout, to notice a silence.
func (s *Session) keepAlive(c *connection) {
	p, clock := s.pace, s.cfg.Clock
	var (
		chain     = chain{direct: p.proof == ProofPing}
		heartbeat = &flight{}  // the newest
		answer    <-chan reply // to it; nil if that has come
		hurry     int          // how many heartbeats to send as soon as possible
		sent      = clock.Now()
		back      = sent // when the last answer came
	)
	beat := func() {
		heartbeat = newFlight(p.heartbeat(), false)
		answer = heartbeat.reply
		c.out.addTo(c, heartbeat)
	}
	if c.unproven {
		// The first heartbeat needs no distance from the handshake. It is sent before the requests that wait: a
		// large one may hold up all that are behind it.
		chain.handshake = c.sent
		beat()
	}
	c.out.use(c)
	timer := time.NewTimer(p.timeout() / 4)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-c.down:
			return
		case <-s.renew:
			hurry = 3 // in an ensemble the third proves the first
			if chain.direct {
				hurry = 1
			}
		case r := <-answer:
			if r.err != nil { // the session has expired
				return
			}
			answer = nil
			back = clock.Now()
			log, d := s.outage.Over(back)
			if log {
				s.cfg.Logger.Warn("zookeeper: connected again", "session", s.ID(), "after", d)
			}
			proof, ok := chain.answered(heartbeat.sent)
			if ok {
				s.renewed(proof)
			}
		case <-timer.C:
		}
		now := clock.Now()
		due := p.due(now, sent, back, hurry > 0)
		switch {
		case c.silence() >= p.timeout():
			c.fail(errSilent)
			return
		case answer != nil:
			due = p.timeout() / 4
		case due <= 0:
			sent = now
			due = p.timeout() / 4
			hurry = max(hurry-1, 0)
			beat()
		}
		timer.Reset(max(due, time.Millisecond))
	}
}

// renewed reports a renewal.
func (s *Session) renewed(sent driver.Instant) { s.cfg.Renewed(sent, s.pace.ttl, s.pace.lag()) }

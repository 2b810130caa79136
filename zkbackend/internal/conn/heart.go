package conn

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// A heartbeat is a request of our own, because the library does not report when it sent a ping, nor that
// the ping was answered.
//
// What an answer proves depends on which server counts the time. A single server extends the session
// when the heartbeat arrives, so the answer proves the moment at which it was sent. In an ensemble the
// leader counts, and a follower reports its clients' requests only in its answers to the leader's pings,
// every half tick. So the answer to a heartbeat of which the leader takes part (a Sync, or a commit)
// proves the heartbeat two before it. The follower had the first heartbeat when it answered it. The
// leader's next ping left the leader before the second heartbeat reached it, a tick later. That ping was
// at the follower before the answer to the second. And the follower's report went ahead of the third, on
// one ordered stream. (Learner.ping, LearnerHandler.run and ExpiryQueue of ZooKeeper 3.8.)
//
// A handshake is different: the follower asks the leader, which extends the session, before it answers.
// But a leader that was deposed answers too, out of what it remembers. So for ProofQuorum a handshake
// proves nothing until the first commit on the same connection has shown that this leader leads. The
// first handshake of a session is itself a commit.

// pace is how often a session sends heartbeats, and what they prove.
type pace struct {
	proof Proof // never ProofAuto
	tick  time.Duration
	ttl   time.Duration
}

// spacing is the least time between the answer to a heartbeat and the next one: twice, one of
// the leader's pings must fit between.
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

// patience is how long a connection may be silent while an answer is due.
func (p pace) patience() time.Duration { return max(p.ttl/4, leastDial) }

// due returns how long it is until the next heartbeat may be sent, or must be, if the last was
// sent at one time and answered at another.
func (p pace) due(now, sent, back driver.Instant, hurry bool) time.Duration {
	soonest := p.spacing() - now.Sub(back)
	if hurry {
		return soonest
	}
	return max(soonest, p.period()-now.Sub(sent))
}

// tooShort returns an error if renewals would leave too little of the TTL; asked is the TTL
// that was asked for.
func (p pace) tooShort(asked time.Duration, margin time.Duration) error {
	margin = min(margin, p.ttl*3/4)
	rest := p.ttl - p.lag() - margin
	if rest >= p.ttl/4 {
		return nil
	}
	given, advice := fmt.Sprintf("a session timeout of %v", p.ttl), "use a longer TTL"
	if p.ttl < asked {
		given += fmt.Sprintf(" (the servers grant no more, %v was requested)", asked)
		advice = "use the TTL that they grant, or a smaller Margin"
	}
	if p.proof != ProofPing {
		given += fmt.Sprintf(", servers whose tickTime is %v", p.tick)
		advice += ", or set Options.TickTime if your servers' is smaller"
	}
	return fmt.Errorf("%w: with %s and a margin of %v, the trust window would be %v, less than a quarter of it: %s",
		driver.ErrRefused, given, margin, rest, advice)
}

// beat is one heartbeat. Whatever the server answers, it has it: also a refusal is a commit.
func (p pace) beat() Request {
	if p.proof == ProofQuorum {
		return Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	}
	return Sync()
}

// chain decides what an answered heartbeat proves.
type chain struct {
	direct bool           // it proves itself
	hello  driver.Instant // of a handshake that the first of them proves; 0 if none
	sent   [2]driver.Instant
	links  int
}

// answered takes in that the heartbeat sent then was answered. They come in order, on one
// connection, none sent less than the spacing after the answer to the one before.
func (c *chain) answered(sent driver.Instant) (proof driver.Instant, ok bool) {
	if c.direct {
		return sent, true
	}
	proof, ok = c.sent[0], c.links >= 2
	if c.links == 0 && c.hello != 0 {
		proof, ok = c.hello, true
	}
	c.sent[0], c.sent[1] = c.sent[1], sent
	c.links++
	return proof, ok
}

// beat sends heartbeats on a connection until it is down or the session is over. A connection that was
// silent for too long is taken for dead, so that there is time to find another.
func (s *Session) beat(c *connection) {
	p, clock := s.pace, s.cfg.Clock
	var (
		chain     = chain{direct: p.proof == ProofPing}
		heartbeat = &flight{}   // the newest
		late      <-chan Answer // its answer; nil if that has come
		hurry     int           // heartbeats to be sent as soon as possible
		sent      = clock.Now()
		back      = sent // when the last answer came
	)
	if c.unproven {
		// At once: nothing has to happen between the handshake and this one.
		chain.hello, hurry, back = c.sent, 1, back.Add(-p.spacing())
	}
	timer := time.NewTimer(max(p.due(sent, sent, back, hurry > 0), time.Millisecond))
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-c.down:
			return
		case <-s.renew:
			if hurry = 3; chain.direct {
				hurry = 1
			}
		case _, ok := <-late:
			if !ok { // the session has expired
				return
			}
			late, back = nil, clock.Now()
			if log, d := s.outage.Over(back); log {
				s.cfg.Logger.Warn("zookeeper: connected again", "session", s.ID(), "after", d)
			}
			if proof, ok := chain.answered(heartbeat.sent); ok {
				s.renewed(proof)
			}
		case <-timer.C:
		}
		now := clock.Now()
		due := p.due(now, sent, back, hurry > 0)
		switch {
		case c.silence() >= p.patience():
			c.fail(errSilent)
			return
		case late != nil:
			due = p.patience() / 4
		case due <= 0:
			sent, due, hurry = now, p.patience()/4, max(hurry-1, 0)
			heartbeat = newFlight(p.beat(), false)
			late = heartbeat.late
			c.out.addTo(c, heartbeat)
		}
		timer.Reset(max(due, time.Millisecond))
	}
}

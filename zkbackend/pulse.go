package zkbackend

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// A heartbeat is a request of our own, because the library does not tell when
// it sent a ping, nor that it was answered.
//
// What an answer proves depends on who counts the time. A single server touches
// the session when the heartbeat arrives, so the answer proves that moment. On
// an ensemble the leader counts, and a follower tells it of its clients' touches
// only in its answers to the leader's pings, every half tick. So the answer to a
// heartbeat of the leader's (a Sync, or a commit) proves the heartbeat two
// before it: the touch of the first was in the follower's hands when its answer
// came; the leader's next ping left the leader before the second heartbeat
// reached it, a tick later; that ping was at the follower before the answer to
// the second; and the follower's report went ahead of the third, on one ordered
// stream. (Learner.ping, LearnerHandler.run and ExpiryQueue of ZooKeeper 3.8.)
//
// A handshake is different: the leader is asked, and touches, before the
// follower answers. But a leader that was deposed answers it too, out of what it
// remembers; so for ProofQuorum it proves nothing until the first commit on the
// same link has shown that this leader leads. A session's first handshake is a
// commit itself.

// spacing is the least time between the answer to a heartbeat and the next, in
// ticks of the servers: one of the leader's pings must fit between, twice.
func (s *sess) spacing() time.Duration {
	if s.proof == ProofPing {
		return 0
	}
	return s.b.opts.TickTime + s.b.opts.TickTime/4
}

// period is the time from one heartbeat to the next.
func (s *sess) period() time.Duration { return max(s.ttl/8, s.spacing()) }

// lag is how old a proof is, at most, when the next one comes, on a fast
// network.
func (s *sess) lag() time.Duration {
	if s.proof == ProofPing {
		return s.period()
	}
	return 3 * s.period()
}

// chain decides what an answered heartbeat proves.
type chain struct {
	direct bool           // it proves itself
	hello  driver.Instant // of a handshake that the first of them proves; 0 if none
	sent   [2]driver.Instant
	links  int
}

// answered takes in that the heartbeat sent then was answered. They come in
// order, on one connection, none sent less than the spacing after the answer to
// the one before.
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

// pulse sends heartbeats on a link until it is down or the session ends. A link
// on which nothing has come back for a quarter of the TTL, while something was
// due, is taken for dead, so that there is time to find another.
func (s *sess) pulse(l *link) {
	var (
		chain   = chain{direct: s.proof == ProofPing}
		answers <-chan answer[string] // of the heartbeat under way; nil if there is none
		hurry   int                   // heartbeats to be sent as soon as possible
		sent    = s.b.clock.Now()
		back    = sent // when the last answer came
	)
	if l.unproven {
		// At once: nothing has to happen between the handshake and this one.
		chain.hello, hurry, back = l.sent, 1, back.Add(-s.spacing())
	}
	timer := time.NewTimer(max(s.due(sent, sent, back, hurry > 0), time.Millisecond))
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-l.down:
			return
		case <-s.prove:
			if hurry = 3; chain.direct {
				hurry = 1
			}
		case a := <-answers:
			answers, back = nil, s.b.clock.Now()
			if out := s.heed(l, a.err); out == expired || out == lost {
				return
			}
			s.report(nil)
			if proof, ok := chain.answered(sent); ok {
				s.cfg.Proof(proof, s.ttl)
			}
		case <-timer.C:
		}
		now := s.b.clock.Now()
		due := s.due(now, sent, back, hurry > 0)
		switch {
		case l.tap.silence() >= s.patience():
			l.fail(errSilent)
			return
		case answers != nil:
			due = s.patience() / 4
		case due <= 0:
			sent, due = now, s.patience()/4
			hurry = max(hurry-1, 0)
			answers = send(l, s.beat)
		}
		timer.Reset(max(due, time.Millisecond))
	}
}

// due is how long it is until the next heartbeat may be sent, or must be.
func (s *sess) due(now, sent, back driver.Instant, hurry bool) time.Duration {
	soonest := s.spacing() - now.Sub(back)
	if hurry {
		return soonest
	}
	return max(soonest, s.period()-now.Sub(sent))
}

// beat is one heartbeat. Whatever the server answers, it has it.
func (s *sess) beat(c *zk.Conn) (string, error) {
	if s.proof != ProofQuorum {
		return c.Sync("/")
	}
	_, err := c.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	return "", err
}

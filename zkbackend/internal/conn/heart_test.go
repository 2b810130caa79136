package conn

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

func TestAStandaloneServerProvesEachHeartbeat(t *testing.T) {
	c := chain{direct: true}
	proof, ok := c.answered(7)
	assert.True(t, ok)
	assert.Equal(t, driver.Instant(7), proof)
}

func TestAnEnsembleProvesTheHeartbeatTwoBefore(t *testing.T) {
	var c chain
	for i, want := range []driver.Instant{0, 0, 10, 20, 30} {
		proof, ok := c.answered(driver.Instant(10 * (i + 1)))
		assert.Equal(t, i >= 2, ok, "heartbeat %d", i)
		if ok {
			assert.Equal(t, want, proof)
		}
	}
}

// TestTheFirstCommitProvesTheHandshakeBeforeIt: it shows that the leader that answered both leads. The
// next heartbeats prove what they always do.
func TestTheFirstCommitProvesTheHandshakeBeforeIt(t *testing.T) {
	c := chain{handshake: 5}
	for i, want := range []driver.Instant{5, 0, 10, 20} {
		proof, ok := c.answered(driver.Instant(10 * (i + 1)))
		assert.Equal(t, i != 1, ok, "heartbeat %d", i)
		if ok {
			assert.Equal(t, want, proof)
		}
	}
}

// TestTheLeaderHasWhatARenewalProves simulates the argument in heart.go: a follower that reports its
// clients in its answers to pings, a leader that pings every half tick, and ordered streams between
// them with any delay. The leader has a report of each heartbeat that a chain takes for proven.
func TestTheLeaderHasWhatARenewalProves(t *testing.T) {
	const tick = 100
	rapid.Check(t, func(t *rapid.T) {
		var (
			delay   = func(what string) int { return rapid.IntRange(0, 300).Draw(t, what) }
			phase   = rapid.IntRange(0, tick/2-1).Draw(t, "phase")
			down    = map[int]int{} // by when it left the leader: when it came to the follower
			lastUp  int             // when the newest message of the follower came to the leader
			lastOut int             // when the newest message of the leader came to the follower
			touched []int           // when heartbeats came to the follower
			known   = -1            // the newest touch that the leader knows
			c       chain
			now     int
		)
		// Messages of the follower, in the order of sending: reports and syncs.
		for i := range 8 {
			sent := now
			arrive := sent + rapid.IntRange(0, 50).Draw(t, "client")
			// All pings that come to the follower before the heartbeat are answered before it is
			// forwarded.
			for p := phase; p <= arrive; p += tick / 2 {
				if _, ok := down[p]; !ok {
					lastOut = max(lastOut, p+delay("ping"))
					down[p] = lastOut
				}
				if at := down[p]; at >= 0 && at <= arrive {
					report := -1
					for k, when := range touched {
						if when <= at {
							report = k
						}
					}
					known = max(known, report)
					down[p] = -1
				}
			}
			touched = append(touched, arrive)
			lastUp = max(lastUp, arrive+delay("forward"))
			// The leader's answer comes behind all pings that left before it.
			for p := phase; p <= lastUp; p += tick / 2 {
				if _, ok := down[p]; !ok {
					lastOut = max(lastOut, p+delay("ping"))
					down[p] = lastOut
				}
			}
			lastOut = max(lastOut, lastUp+delay("answer"))
			back := lastOut + rapid.IntRange(0, 50).Draw(t, "client")
			if _, ok := c.answered(driver.Instant(i)); ok && known < i-2 {
				t.Fatalf("heartbeat %d taken for proof of %d, the leader knows %d", i, i-2, known)
			}
			now = back + tick + tick/4
		}
	})
}

func TestRenewalsAreAsOldAsTheLag(t *testing.T) {
	for _, proof := range []Proof{ProofPing, ProofSync, ProofQuorum} {
		for _, tick := range []time.Duration{100 * time.Millisecond, 1100 * time.Millisecond} {
			change := func(c *Config) { c.Proof, c.TickTime = proof, tick }
			scripted(t, &server{}, change, func(t *testing.T, c *Session, r *reports) {
				oldest := time.Duration(0)
				for range 100 {
					time.Sleep(c.TTL()/100 - time.Microsecond)
					oldest = max(oldest, c.cfg.Clock.Now().Sub(r.newest()))
				}
				assert.LessOrEqual(t, oldest, c.pace.lag()+10*time.Millisecond, "%v, a tick of %v", proof, tick)
				assert.Greater(t, oldest, c.pace.lag()-c.TTL()/50, "%v, a tick of %v", proof, tick)
			})
		}
	}
}

func TestHeartbeatsLeaveRoomForThePings(t *testing.T) {
	p := pace{tick: 2 * time.Second, ttl: 15 * time.Second, proof: ProofSync}
	assert.Equal(t, 2500*time.Millisecond, p.period())
	p.ttl = 40 * time.Second
	assert.Equal(t, 5*time.Second, p.period())
	p.proof = ProofPing
	p.ttl = 2 * time.Second
	assert.Equal(t, 250*time.Millisecond, p.period())
}

func TestATTLThatLeavesTooLittleIsRefused(t *testing.T) {
	for _, c := range []struct {
		pace
		ok bool
	}{
		{pace{ProofPing, 2 * time.Second, 2 * time.Second}, true},
		{pace{ProofSync, 2 * time.Second, 15 * time.Second}, true},
		{pace{ProofSync, 2 * time.Second, 10 * time.Second}, false},
		{pace{ProofQuorum, 2 * time.Second, 4 * time.Second}, false},
		{pace{ProofSync, 100 * time.Millisecond, 2 * time.Second}, true},
	} {
		err := c.tooShort(c.ttl, c.ttl/10)
		assert.Equal(t, c.ok, err == nil, "%+v: %v", c, err)
		if err != nil {
			assert.ErrorIs(t, err, driver.ErrRefused)
			assert.ErrorContains(t, err, "TickTime")
			assert.ErrorContains(t, err, "never below")
		}
	}
}

// TestAHandshakeRenewsNothingBeforeAHeartbeatIsAnswered, in an ensemble. Then its own time counts.
func TestAHandshakeRenewsNothingBeforeAHeartbeatIsAnswered(t *testing.T) {
	for proof, kind := range map[Proof]int32{ProofSync: opSync, ProofQuorum: opMulti} {
		s := &server{}
		held := make(chan func(), 10)
		s.serve = func(p *peer, r request) bool {
			switch {
			case r.op() == opExists:
				return p.Close() == nil
			case p.n == 2 && r.op() == kind:
				held <- func() { p.send(answerTo(r, 1)) }
				return true
			}
			return false
		}
		scripted(t, s, func(c *Config) { c.Proof = proof }, func(t *testing.T, c *Session, r *reports) {
			time.Sleep(c.TTL() / 20)
			before, lost := r.count(), c.cfg.Clock.Now()
			_, err := c.Once(t.Context(), Exists("/"))
			require.Error(t, err)
			time.Sleep(10 * time.Millisecond)
			assert.Equal(t, before, r.count(), "%v", proof)
			for len(held) > 0 {
				(<-held)()
				synctest.Wait()
			}
			assert.Equal(t, before+1, r.count(), "%v", proof)
			assert.Equal(t, lost, r.newest(), "%v: the handshake's time", proof)
		})
	}
}

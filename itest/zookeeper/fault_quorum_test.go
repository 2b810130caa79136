package zookeeper

import (
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// connTo is a client of one member alone, past its proxy.
func connTo(t *testing.T, e *zktest.Ensemble, member int, timeout time.Duration) *zk.Conn {
	t.Helper()
	conn, err := e.NewClient(&zktest.ClientOptions{Endpoints: []string{e.Member(member).Direct()}, Session: timeout})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// rival is a hold whose server gets a fault, and a waiter behind it whose server does not.
type rival struct {
	hold     *session.Hold
	over     <-chan driver.Instant // when its context ended
	deadline <-chan driver.Instant // its deadline
	waiting  *recipetest.Request
}

// newRival has a client with that proof and TTL hold, on one member, and another one wait, on
// a second one.
func newRival(t *testing.T, e *zktest.Ensemble, proof zkbackend.Proof, ttl time.Duration, on, other int) *rival {
	t.Helper()
	name := proof.String()
	p := newClient(t, "/fairlock", ttl)
	p.opts.Proof = proof
	p.open(t, e.Member(on).Direct())
	r := &rival{hold: p.Lock(t, name)}
	r.over, r.deadline = ended(r.hold), deadlineOf(r.hold)
	r.waiting = newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Member(other).Direct()).Begin(recipetest.Bounded(t), name)
	return r
}

// cutFollowerProvesNothing cuts a follower off from its leader. It goes on answering its
// clients' pings and reads until it has received nothing for syncLimit ticks, 12 s here,
// while the leader lets their sessions expire.
func cutFollowerProvesNothing(t *testing.T) {
	const ttl = 6 * time.Second // of sessions that a busy machine must not end before the cut
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true, Config: map[string]string{"syncLimit": "120"}})
	leader, err := e.Leader(recipetest.Bounded(t))
	require.NoError(t, err)
	follower, other := (leader+1)%3, (leader+2)%3
	conn := connTo(t, e, leader, recipetest.CalmTTL)
	proofs := []zkbackend.Proof{zkbackend.ProofAuto, zkbackend.ProofQuorum}
	var rivals []*rival
	var gone []<-chan driver.Instant
	for _, proof := range proofs {
		r := newRival(t, e, proof, ttl, follower, other)
		awaitEntries(t, conn, "/fairlock/"+proof.String(), 2)
		rivals = append(rivals, r)
		gone = append(gone, deletion(t, conn, recipetest.Refs(r.hold)[0].Key))
	}
	naive := newNaive(t, connTo(t, e, follower, ttl))
	naiveGone := deletion(t, conn, naive.path)

	e.Member(follower).CutFrom(leader)
	defer e.Member(follower).HealFrom(leader)
	machine, began := pace(t), recipetest.Now()
	for i, r := range rivals {
		over, at := recipetest.Wait(t, r.over, "the end of the hold"), recipetest.Wait(t, gone[i], "the end of the node")
		next := r.waiting.Granted(t)
		t.Logf("proof %v: the context ended %v after the cut, %v before the node was deleted, %v before the next grant",
			proofs[i], over.Sub(began), at.Sub(over), r.waiting.At.Sub(over))

		assert.Greater(t, at.Sub(<-r.deadline), 50*time.Millisecond, "proof %v: from the deadline to the end of the node", proofs[i])
		endedFirst(t, machine, over, at, "proof %v: before the node", proofs[i])
		endedFirst(t, machine, over, r.waiting.At, "proof %v: before the next grant", proofs[i])
		assert.Greater(t, next.Token(), r.hold.Token())
		recipetest.UnlockInTrouble(t, next)
	}
	// A client that trusts the follower's answers still holds.
	at := recipetest.Wait(t, naiveGone, "the end of the naive one's node")
	deadline := naive.stop(ttl)
	t.Logf("by the follower's answers: in force for at least %v after the node was deleted", deadline.Sub(at))
	assert.Positive(t, deadline.Sub(at), "the cut is one that a ping does not notice")
}

// naive is a lock that takes any answer of its server for a proof.
type naive struct {
	path string
	quit chan struct{}
	done sync.WaitGroup
	sent driver.Instant // when the newest request that was answered was sent
}

func newNaive(t *testing.T, conn *zk.Conn) *naive {
	t.Helper()
	path, err := conn.Create("/naive", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	n := &naive{path: path, quit: make(chan struct{})}
	n.done.Go(func() {
		for {
			sent := recipetest.Now()
			if _, _, err := conn.Get(path); err != nil {
				return
			}
			n.sent = sent
			select {
			case <-n.quit:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return n
}

// stop returns the time until which it would trust its hold, with a session of that TTL.
func (n *naive) stop(ttl time.Duration) driver.Instant {
	close(n.quit)
	n.done.Wait()
	return n.sent.Add(ttl - ttl/10)
}

// deposedLeader cuts the leader off from the other members, together with its clients. It
// goes on leading until it has received nothing for syncLimit ticks, 12 s here, and answers
// Sync; but it cannot commit.
func deposedLeader(t *testing.T) {
	const ttl = 6 * time.Second // of sessions that a busy machine must not end before the cut
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true, Config: map[string]string{"syncLimit": "120"}})
	leader, err := e.Leader(recipetest.Bounded(t))
	require.NoError(t, err)
	conn := connTo(t, e, (leader+1)%3, recipetest.CalmTTL)
	quorum := newRival(t, e, zkbackend.ProofQuorum, ttl, leader, (leader+1)%3)
	sync := newRival(t, e, zkbackend.ProofAuto, ttl, leader, (leader+2)%3)
	awaitEntries(t, conn, "/fairlock/quorum", 2)
	awaitEntries(t, conn, "/fairlock/auto", 2)

	e.Member(leader).CutPeers()
	machine, watch, began := pace(t), metronome.Begin(t), recipetest.Now()
	over := recipetest.Wait(t, quorum.over, "the end of the hold with ProofQuorum")
	assert.Less(t, over.Sub(began)-watch.Stalled(), ttl)
	if watch.Stalled() < time.Second { // it could be read in time
		assert.NoError(t, sync.hold.Context().Err(), "the old leader still answers Sync")
	}
	late := recipetest.Wait(t, sync.over, "the end of the hold with ProofAuto")
	for _, r := range []*rival{quorum, sync} {
		next := r.waiting.Granted(t)
		endedFirst(t, machine, late, r.waiting.At, "before the next grant")
		assert.Greater(t, next.Token(), r.hold.Token())
		recipetest.UnlockInTrouble(t, next)
	}
	t.Logf("after the cut: the context with ProofQuorum ended after %v, with ProofAuto after %v, the next grants came after %v and %v",
		over.Sub(began), late.Sub(began), quorum.waiting.At.Sub(began), sync.waiting.At.Sub(began))
	e.Member(leader).HealPeers()
}

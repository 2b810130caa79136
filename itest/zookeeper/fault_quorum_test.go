package zookeeper

import (
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// rival is a hold whose server gets into trouble, and who stands behind it with
// a server that does not.
type rival struct {
	hold     *session.Hold
	told     <-chan driver.Instant // when its context ended
	believed <-chan driver.Instant // its deadline
	waiting  *recipetest.Request
}

// newRival has a party with that proof hold, on one member, and another wait, on
// a second one.
func newRival(t *testing.T, e *zktest.Ensemble, proof zkbackend.Proof, on, other int) *rival {
	t.Helper()
	name := proof.String()
	p := newClient(t, "/fairlock", shortTTL)
	p.opts.Proof = proof
	p.open(t, e.Member(on).Direct())
	r := &rival{hold: p.Lock(t, name)}
	r.told, r.believed = ended(r.hold), belief(r.hold)
	r.waiting = newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Member(other).Direct()).Begin(recipetest.Bounded(t), name)
	return r
}

// cutFollowerProvesNothing cuts a follower off from its leader. It goes on
// answering its clients' pings and reads until it has heard nothing for
// syncLimit ticks, 5 s here, while the leader lets their sessions expire.
func cutFollowerProvesNothing(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true, Config: map[string]string{"syncLimit": "50"}})
	leader, err := e.Leader(recipetest.Bounded(t))
	require.NoError(t, err)
	follower, other := (leader+1)%3, (leader+2)%3
	conn := connTo(t, e, leader, recipetest.CalmTTL)
	proofs := []zkbackend.Proof{zkbackend.ProofAuto, zkbackend.ProofSync, zkbackend.ProofQuorum}
	var rivals []*rival
	var gone []<-chan driver.Instant
	for _, proof := range proofs {
		r := newRival(t, e, proof, follower, other)
		lined(t, conn, "/fairlock/"+proof.String(), 2)
		rivals = append(rivals, r)
		gone = append(gone, deletion(t, conn, recipetest.Refs(r.hold)[0].Key))
	}
	naive := newNaive(t, connTo(t, e, follower, shortTTL))
	naiveGone := deletion(t, conn, naive.path)

	e.Member(follower).CutFrom(leader)
	defer e.Member(follower).HealFrom(leader)
	began := recipetest.Now()
	for i, r := range rivals {
		told, at := recipetest.Wait(t, r.told, "the end of the hold"), recipetest.Wait(t, gone[i], "the end of the node")
		next := r.waiting.Granted(t)
		t.Logf("proof %v: told %v after the cut, %v before the node was deleted, %v before the next one held",
			proofs[i], told.Sub(began), at.Sub(told), r.waiting.At.Sub(told))

		assert.Greater(t, at.Sub(<-r.believed), 50*time.Millisecond, "proof %v: from the deadline to the end of the node", proofs[i])
		assert.Greater(t, at, told)
		assert.Greater(t, r.waiting.At, told)
		assert.Greater(t, next.Token(), r.hold.Token())
		recipetest.UnlockInTrouble(t, next)
	}
	// Whoever believes what the follower says still holds.
	at := recipetest.Wait(t, naiveGone, "the end of the naive one's node")
	believed := naive.stop()
	t.Logf("by the follower's answers: in force for at least %v after the node was deleted", believed.Sub(at))
	assert.Positive(t, believed.Sub(at), "the cut is one that a ping does not notice")
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

// stop returns the moment until which it would believe that it holds.
func (n *naive) stop() driver.Instant {
	close(n.quit)
	n.done.Wait()
	return n.sent.Add(shortTTL - shortTTL/10)
}

// deposedLeader cuts the leader off from the others, with its clients. It leads
// on until it has heard of nobody for syncLimit ticks, and answers Sync; what it
// cannot do is commit.
func deposedLeader(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true, Config: map[string]string{"syncLimit": "40"}})
	leader, err := e.Leader(recipetest.Bounded(t))
	require.NoError(t, err)
	conn := connTo(t, e, (leader+1)%3, recipetest.CalmTTL)
	quorum := newRival(t, e, zkbackend.ProofQuorum, leader, (leader+1)%3)
	sync := newRival(t, e, zkbackend.ProofSync, leader, (leader+2)%3)
	lined(t, conn, "/fairlock/quorum", 2)
	lined(t, conn, "/fairlock/sync", 2)

	e.Member(leader).CutPeers()
	began := recipetest.Now()
	told := recipetest.Wait(t, quorum.told, "the end of the hold with ProofQuorum")
	assert.Less(t, told.Sub(began), shortTTL)
	assert.NoError(t, sync.hold.Context().Err(), "the old leader still answers Sync")
	late := recipetest.Wait(t, sync.told, "the end of the hold with ProofSync")
	for _, r := range []*rival{quorum, sync} {
		next := r.waiting.Granted(t)
		assert.Greater(t, r.waiting.At, late)
		assert.Greater(t, next.Token(), r.hold.Token())
		recipetest.UnlockInTrouble(t, next)
	}
	t.Logf("after the cut: told by quorum %v, by sync %v, the next ones held %v and %v",
		told.Sub(began), late.Sub(began), quorum.waiting.At.Sub(began), sync.waiting.At.Sub(began))
	e.Member(leader).HealPeers()
}

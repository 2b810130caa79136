package etcdbackend

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdbackend/internal/lease"
	"github.com/fairlock/fairlock/etcdbackend/internal/watch"
	"github.com/fairlock/fairlock/session/driver"
)

// offline is a session that sends nothing, with the lease abc.
func offline(lay layout) *etcdSession {
	return &etcdSession{b: &backend{lay: lay}, lease: &lease.Lease{ID: 0xabc}, queues: make(map[string]*queue), sweep: leastQueues}
}

func TestAKeyIsUsedAgainOnlyWhenItsEntryIsGone(t *testing.T) {
	s := offline(layout{root: "r"})
	take := func() *own {
		o, _ := s.take(&driver.JoinRequest{Queue: "x"})
		return o
	}
	a, b := take(), take()
	assert.Equal(t, []string{"r/x/abc.0", "r/x/abc.1"}, []string{a.ref.Key, b.ref.Key})
	s.made(a, 7, false, 0)

	again := take()
	assert.Equal(t, "r/x/abc.2", again.ref.Key, "two are taken")
	s.release(a)
	s.release(a) // its end is learned twice
	first, second := take(), take()
	assert.Equal(t, []string{"r/x/abc.0", "r/x/abc.3"}, []string{first.ref.Key, second.ref.Key})

	second.retired = true
	s.made(second, 9, false, 0)
	s.release(second)
	assert.Equal(t, "r/x/abc.4", take().ref.Key, "a delete of the key may still come")
}

func TestAnEntryIsFoundByItsPlaceOnly(t *testing.T) {
	s := offline(layout{root: "r"})
	o, _ := s.take(&driver.JoinRequest{Queue: "x"})
	s.made(o, 7, false, 0)
	old := o.ref
	s.release(o)
	o, _ = s.take(&driver.JoinRequest{Queue: "x"})
	s.made(o, 9, false, 0)
	require.Equal(t, old.Key, o.ref.Key)

	found, _ := s.find(old)
	assert.Nil(t, found, "an earlier entry with that key")
	found, gone := s.find(o.ref)
	assert.Same(t, o, found)
	assert.False(t, gone)
	s.Report(&watch.Target{Queue: "x", Ref: o.ref}, driver.Gone, 12)
	_, gone = s.find(o.ref)
	assert.True(t, gone)
}

func TestIdleQueuesAreForgottenButNotHowNewTheyWere(t *testing.T) {
	s := offline(layout{root: "r"})
	o, _ := s.take(&driver.JoinRequest{Queue: "kept"})
	s.made(o, 7, false, 0)
	for i := range 3 * leastQueues {
		s.learn(fmt.Sprint("x", i), int64(100+i))
	}

	assert.LessOrEqual(t, len(s.queues), leastQueues+1)
	found, _ := s.find(o.ref)
	assert.Same(t, o, found, "the session has an entry there")
	_, floor, _ := s.lookup("x5")
	assert.GreaterOrEqual(t, floor, int64(105), "a read may not be older than what was shown before")
}

func TestJoinsAreOfDifferentQueues(t *testing.T) {
	reqs := func(names ...string) (all []driver.JoinRequest) {
		for _, n := range names {
			all = append(all, driver.JoinRequest{Queue: n})
		}
		return all
	}
	native, plain := offline(layout{root: "r"}), offline(layout{root: "r", kind: LayoutConcurrency})
	require.NoError(t, native.checkJoin(reqs("a", "a/b", "ab", "a/")))
	require.NoError(t, plain.checkJoin(reqs("a", "ab", "b/a")))

	for _, bad := range [][]driver.JoinRequest{
		nil, reqs("a", "b", "a"), make([]driver.JoinRequest, maxJoin+1),
		{{Queue: "a", Weight: -1}},
		{{Queue: "a", Data: make([]byte, maxData+1)}},
		{{Queue: "a", Detail: make([]byte, maxDetail+1)}},
	} {
		assert.Error(t, native.checkJoin(bad))
	}
	assert.ErrorContains(t, plain.checkJoin(reqs("x", "a/b/c", "a")), `"a/b/c" and "a"`)
	assert.ErrorContains(t, plain.checkJoin(reqs("a", "a/b")), `"a" and "a/b"`)
	native.lease = nil
	assert.ErrorContains(t, native.checkJoin(reqs("a")), "observer")
}

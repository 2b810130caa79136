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

// remembered returns the queues of a new session with the lease abc: none.
func remembered() *queues { return newQueues(layout{root: "r"}, 0xabc) }

func TestAKeyIsUsedAgainOnlyWhenItsEntryIsGone(t *testing.T) {
	qs := remembered()
	take := func() *own {
		o, _ := qs.reserve(&driver.JoinRequest{Queue: "x"})
		return o
	}
	a, b := take(), take()
	assert.Equal(t, []string{"r/x/abc.0", "r/x/abc.1"}, []string{a.ref.Key, b.ref.Key})
	qs.made(a, 7, false, 0)

	again := take()
	assert.Equal(t, "r/x/abc.2", again.ref.Key, "two are taken")
	qs.free(a)
	qs.free(a) // the session learns its end twice
	first, second := take(), take()
	assert.Equal(t, []string{"r/x/abc.0", "r/x/abc.3"}, []string{first.ref.Key, second.ref.Key})

	second.retired = true
	qs.made(second, 9, false, 0)
	qs.free(second)
	assert.Equal(t, "r/x/abc.4", take().ref.Key, "a delete of the key may still come")
}

func TestAnEntryIsFoundByItsPlaceOnly(t *testing.T) {
	qs := remembered()
	o, _ := qs.reserve(&driver.JoinRequest{Queue: "x"})
	qs.made(o, 7, false, 0)
	old := o.ref
	qs.free(o)
	o, _ = qs.reserve(&driver.JoinRequest{Queue: "x"})
	qs.made(o, 9, false, 0)
	require.Equal(t, old.Key, o.ref.Key)

	found, _ := qs.find(old)
	assert.Nil(t, found, "an earlier entry with that key")
	found, gone := qs.find(o.ref)
	assert.Same(t, o, found)
	assert.False(t, gone)
	qs.reported(&watch.Target{Queue: "x", Ref: o.ref}, driver.Gone, 12)
	_, gone = qs.find(o.ref)
	assert.True(t, gone)
}

func TestIdleQueuesAreForgottenButNotHowNewTheyWere(t *testing.T) {
	qs := remembered()
	o, _ := qs.reserve(&driver.JoinRequest{Queue: "kept"})
	qs.made(o, 7, false, 0)
	for i := range 3 * minQueues {
		qs.learn(fmt.Sprint("x", i), int64(100+i))
	}

	assert.LessOrEqual(t, len(qs.byName), minQueues+1)
	found, _ := qs.find(o.ref)
	assert.Same(t, o, found, "the session has an entry there")
	_, floor := qs.lookup("x5")
	assert.GreaterOrEqual(t, floor, int64(105), "a read may not be older than what was shown before")
}

func TestAReadOfAQueueThatWasForgottenMeanwhileCounts(t *testing.T) {
	qs := remembered()
	before, _ := qs.lookup("x")
	for i := range 3 * minQueues {
		qs.learn(fmt.Sprint("other", i), 1)
	}
	qs.remember("x", 50, nil, nil)

	now, floor := qs.lookup("x")
	require.NotSame(t, before, now, "it was forgotten while the read was under way")
	assert.EqualValues(t, 50, floor)
}

func TestJoinsAreOfDifferentQueues(t *testing.T) {
	reqs := func(names ...string) (all []driver.JoinRequest) {
		for _, n := range names {
			all = append(all, driver.JoinRequest{Queue: n})
		}
		return all
	}
	native := &join{s: &etcdSession{lay: layout{root: "r"}, lease: &lease.Lease{ID: 0xabc}}}
	plain := &join{s: &etcdSession{lay: layout{root: "r", kind: LayoutConcurrency}, lease: native.s.lease}}
	require.NoError(t, native.check(reqs("a", "a/b", "ab", "a/")))
	require.NoError(t, plain.check(reqs("a", "ab", "b/a")))

	for _, bad := range [][]driver.JoinRequest{
		nil, reqs("a", "b", "a"), make([]driver.JoinRequest, maxJoin+1),
		{{Queue: "a", Weight: -1}},
		{{Queue: "a", Data: make([]byte, maxData+1)}},
		{{Queue: "a", Detail: make([]byte, maxDetail+1)}},
	} {
		assert.Error(t, native.check(bad))
	}
	assert.ErrorContains(t, plain.check(reqs("x", "a/b/c", "a")), `"a/b/c" and "a"`)
	assert.ErrorContains(t, plain.check(reqs("a", "a/b")), `"a" and "a/b"`)
	native.s.lease = &lease.Lease{}
	assert.ErrorContains(t, native.check(reqs("a")), "observer")
}

func TestQueuesAreForgottenWhenManyHaveLostTheirEntries(t *testing.T) {
	qs := remembered()
	var all []*own
	for place := range int64(100) {
		o, _ := qs.reserve(&driver.JoinRequest{Queue: fmt.Sprint("x", place)})
		qs.made(o, place+1, false, 0)
		all = append(all, o)
	}
	for _, o := range all {
		qs.free(o)
	}
	assert.LessOrEqual(t, len(qs.byName), minQueues)
	assert.GreaterOrEqual(t, qs.floor("x0"), int64(1), "no later read may be older")
}

func TestARetiredKeyIsNotUsedAgainWhenItsQueueIsForgotten(t *testing.T) {
	qs := remembered()
	o, _ := qs.reserve(&driver.JoinRequest{Queue: "x"})
	o.retired = true
	qs.made(o, 7, false, 0)
	qs.free(o)
	for i := range 2 * minQueues {
		qs.learn(fmt.Sprint("other", i), 1)
	}
	require.NotContains(t, qs.byName, "x")

	o, _ = qs.reserve(&driver.JoinRequest{Queue: "x"})
	assert.Equal(t, "r/x/abc.1", o.ref.Key, "a delete of the first key may still come")
}

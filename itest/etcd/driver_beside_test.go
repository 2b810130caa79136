package etcd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
)

func TestEtcdDriverNumberOfADeletedEntryIsFree(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	l, other := lease(t, client, nil, 10*time.Second), lease(t, client, nil, 10*time.Second)
	var refs []driver.Ref
	for want := range 3 {
		ref := l.join(t, "gpu").Entry.Ref
		n, err := l.Claim(t.Context(), ref)
		require.NoError(t, err)
		require.Equal(t, want, n.N)
		refs = append(refs, ref)
	}
	_, err := client.Delete(t.Context(), refs[1].Key)
	require.NoError(t, err)

	next := other.join(t, "gpu").Entry.Ref
	n, err := other.Claim(t.Context(), next)
	require.NoError(t, err)
	assert.Equal(t, 1, n.N, "its entry is gone")
	assert.Equal(t, 3, count(t, client, "fairlock/%beside/gpu/slot/"), "and one number each")

	_, err = l.Leave(t.Context(), driver.LeaveRequest{Ref: refs[1]})
	require.ErrorIs(t, err, driver.ErrGone)
	assert.Equal(t, 3, count(t, client, "fairlock/%beside/gpu/slot/"), "what is another's by now stays")
	l.leave(t, refs[0])
	l.leave(t, refs[2])
	other.leave(t, next)
	assert.Equal(t, 0, count(t, client, "fairlock/%beside/gpu/slot/"))
}

// What hangs on an entry goes when its owner hears that somebody deleted it,
// and not a second time when the owner itself leaves.
func TestEtcdDriverNothingHangsOnADeletedEntry(t *testing.T) {
	client, m := meteredClient(t, etcdtest.New(t, nil))
	l := lease(t, client, nil, 30*time.Second)
	req := driver.JoinRequest{Line: "gpu", Value: []byte("web-1")}
	join := func() (driver.Ref, events) {
		j, err := l.Join(t.Context(), req)
		require.NoError(t, err)
		own := l.watch(t, driver.WatchRequest{Ref: j.Entry.Ref, Own: true})
		own.next(t, driver.Armed)
		_, err = l.Claim(t.Context(), j.Entry.Ref)
		require.NoError(t, err)
		return j.Entry.Ref, own
	}
	ref, own := join()
	require.Equal(t, 2, count(t, client, "fairlock/%beside/gpu/"), "number and what it says of itself")
	_, err := client.Delete(t.Context(), ref.Key)
	require.NoError(t, err)
	own.next(t, driver.Gone)
	require.Eventually(t, func() bool { return count(t, client, "fairlock/%beside/gpu/") == 0 }, recipetest.Patience, time.Millisecond)

	for range 20 {
		ref, own = join()
		m.costs(t, 1, "giving back with a number", func() {
			l.leave(t, ref)
			own.next(t, driver.Gone)
		})
	}
	assert.Equal(t, 0, count(t, client, "fairlock/"))
}

// Whoever comes late to a watch that others have is told where it stands, and
// nothing of what was before.
func TestEtcdDriverWatchesOnALineAreShared(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	l, other := lease(t, cluster.Client(t), nil, 10*time.Second), lease(t, cluster.Client(t), nil, 10*time.Second)
	req := driver.WatchRequest{Of: driver.OfLine, Ref: driver.Ref{Line: "x"}}
	early := l.watch(t, req)
	early.next(t, driver.Armed)
	e := other.join(t, "x").Entry
	assert.Equal(t, e.Place, early.next(t, driver.Changed).Rev)

	late := l.watch(t, req)
	assert.GreaterOrEqual(t, late.next(t, driver.Armed).Rev, e.Place, "a look after it shows the entry")
	left := other.leave(t, e.Ref)
	assert.Equal(t, left.Rev, early.next(t, driver.Changed).Rev)
	assert.Equal(t, left.Rev, late.next(t, driver.Changed).Rev)

	// The same for an entry: what changed before is told, since the watch says
	// that it began before that.
	w := other.join(t, "y").Entry
	entry := driver.WatchRequest{Ref: w.Ref, Changes: true}
	_, err := l.Look(t.Context(), driver.LookRequest{Line: "y", Upto: w.Place})
	require.NoError(t, err)
	first := l.watch(t, entry)
	first.next(t, driver.Armed)
	_, err = other.Share(t.Context(), w.Ref)
	require.NoError(t, err)
	changed := first.next(t, driver.Changed)
	second := l.watch(t, entry)
	if ev := second.next(t, driver.Armed); ev.Rev < changed.Rev {
		assert.Equal(t, changed.Rev, second.next(t, driver.Changed).Rev)
	}
}

// A look that leaves values where they are reads those of writers that were
// written since: one may be a reader by now.
func TestEtcdDriverLooksShowWhatAWriterHasBecome(t *testing.T) {
	client, m := meteredClient(t, etcdtest.New(t, nil))
	l, outside := lease(t, client, nil, 10*time.Second), lease(t, client, nil, 10*time.Second)
	writer, written, plain := l.join(t, "rw").Entry, l.join(t, "rw").Entry, l.join(t, "rw").Entry
	_, err := l.Share(t.Context(), writer.Ref)
	require.NoError(t, err)
	_, err = client.Put(t.Context(), written.Key, "by hand", clientv3.WithIgnoreLease())
	require.NoError(t, err)
	for range 40 {
		l.join(t, "rw")
	}
	for what, s := range map[string]*leased{"deep": l, "unknown": outside} {
		m.costs(t, 2, "a look at a line that is "+what, func() {
			v, err := s.Look(t.Context(), driver.LookRequest{Line: "rw", Upto: plain.Place})
			require.NoError(t, err)
			require.Len(t, v.Entries, 3)
			assert.Equal(t, []driver.Mode{driver.Shared, driver.Exclusive, driver.Exclusive},
				[]driver.Mode{v.Entries[0].Mode, v.Entries[1].Mode, v.Entries[2].Mode})
		})
	}
}

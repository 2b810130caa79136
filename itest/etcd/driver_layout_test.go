package etcd

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
)

func TestElectionsOfPackageConcurrencyShareTheQueue(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	o := open(t, client, &etcdbackend.Options{Layout: etcdbackend.LayoutConcurrency}, recipetest.EventTTL)
	theirs, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, theirs.Close()) })
	ours := o.join(t, driver.JoinRequest{Queue: "a/b", Valued: true, Data: []byte("web-1"), Detail: []byte("{}"), Ops: []driver.Op{
		{Record: "ledger", If: driver.Absent(), Value: []byte("n")},
	}}).Entry

	e := concurrency.NewElection(theirs, "a/b")
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "web-1", string(leader.Kvs[0].Value))
	_, err = o.Update(t.Context(), driver.UpdateRequest{Queue: "a/b", Entry: ours.Ref, Data: []byte("web-1:80"), Detail: []byte(`{"granted":1}`)})
	require.NoError(t, err)
	leader, err = e.Leader(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "web-1:80", string(leader.Kvs[0].Value))
	assert.Equal(t, ours.Token, leader.Kvs[0].CreateRevision)
	assert.Equal(t, 1, count(t, client, "a/"), "nothing but the entry lies there")

	m := concurrency.NewMutex(theirs, "a/b")
	require.ErrorIs(t, m.TryLock(t.Context()), concurrency.ErrLocked)
	o.leave(t, ours.Ref, driver.Op{Record: "ledger", If: driver.Equal([]byte("n"))})
	assert.Equal(t, 0, count(t, client, "fairlock/%v2/"), "all that belongs to the entry goes with it")
	require.NoError(t, e.Campaign(t.Context(), "theirs"))
	v := o.read(t, driver.ReadRequest{Queue: "a/b", Detail: true})
	require.Len(t, v.Entries, 1)
	assert.True(t, v.Entries[0].Foreign)
	assert.Equal(t, fmt.Sprintf("%x", int64(theirs.Lease())), v.Entries[0].Session)
	assert.Equal(t, "theirs", string(v.Entries[0].Data))

	_, err = o.Join(t.Context(), driver.JoinRequest{Queue: "a"}, driver.JoinRequest{Queue: "a/b"})
	require.ErrorIs(t, err, driver.ErrRefused)
	all, err := o.Join(t.Context(), driver.JoinRequest{Queue: "a/b"}, driver.JoinRequest{Queue: "b"})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 0}, []int{all[0].View.Count, all[1].View.Count})
	names, err := o.Names(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, []string{"a/b", "b"}, names)
}

func TestRootsNeverMeet(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	for _, roots := range [][2]string{
		{"fairlock", "fairlock/team"}, {"a/b", "a/b/team"}, {"a", "a/%team"}, {"a%", "a%2Fteam"},
	} {
		outer, inner := open(t, client, &etcdbackend.Options{Root: roots[0]}, recipetest.EventTTL), open(t, client, &etcdbackend.Options{Root: roots[1]}, recipetest.EventTTL)
		inner.put(t, "x")
		inner.join(t, driver.JoinRequest{Queue: "pool", Detail: []byte("d"), Ops: []driver.Op{{Record: "limit", If: driver.Absent(), Value: []byte("2")}}})
		for _, name := range []string{"team", "team/x", "%team", "%v2", "team/%v2/pool", "x", "pool"} {
			j := outer.join(t, driver.JoinRequest{Queue: name, Records: []string{"limit"}})
			assert.Zero(t, j.View.Count, "the queue %q of the root %q is empty", name, roots[0])
			assert.Empty(t, j.View.Records)
			outer.leave(t, j.Entry.Ref)
		}
		names, err := outer.Names(t.Context(), "")
		require.NoError(t, err)
		assert.Empty(t, names, "the queues of the root %q are not those of %q", roots[1], roots[0])
		names, err = inner.Names(t.Context(), "")
		require.NoError(t, err)
		assert.Equal(t, []string{"pool", "x"}, names)
		require.NoError(t, inner.Close(t.Context()))
	}
}

func TestForeignKeysCountAndHarmNothing(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	o := open(t, client, nil, recipetest.EventTTL)
	for _, lease := range []string{o.ID(), "abc"} {
		keys := foreignNames(lease)
		for i, key := range keys {
			for range 2 {
				_, err := client.Put(t.Context(), "fairlock/x/"+key, []string{"", "{}", "{}\n#shared", "\xff"}[i%4])
				require.NoError(t, err)
			}
		}
		j := o.join(t, driver.JoinRequest{Queue: "x", Data: []byte("{}")})
		assert.Equal(t, len(keys), j.View.Count)
		v := o.read(t, driver.ReadRequest{Queue: "x", Upto: j.Entry.Place, Marks: true, Detail: true})
		require.Len(t, v.Entries, len(keys)+1)
		last := v.Entries[len(keys)]
		assert.Equal(t, j.Entry.Ref, last.Ref)
		assert.Equal(t, "{}", string(last.Data))
		for _, e := range v.Entries[:len(keys)] {
			assert.True(t, e.Unleased)
			o.watch(t, e.Target()).next(t, driver.Armed)
		}
		_, err := client.Delete(t.Context(), "fairlock/x/", clientv3.WithFromKey())
		require.NoError(t, err)
	}
}

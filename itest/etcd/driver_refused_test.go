package etcd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

func TestWithNoSpaceLeftEntriesCanGo(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{QuotaBytes: 16 << 20})
	client, w := wired(t, cluster)
	o := open(t, client, nil, recipetest.EventTTL)
	robust := o.join(t, driver.JoinRequest{Queue: "x", Detail: []byte("d"), Ops: []driver.Op{{Record: "ledger", If: driver.Absent(), Value: []byte("n")}}}).Entry.Ref
	waiting, plain := o.put(t, "x"), o.put(t, "y")
	var line []driver.Ref
	for range 3 {
		line = append(line, o.put(t, "line"))
	}
	valued := o.join(t, driver.JoinRequest{Queue: "z", Valued: true, Data: []byte("v")}).Entry.Ref
	own := o.watch(t, waiting.Target())
	own.next(t, driver.Armed)
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		_, err = client.Put(t.Context(), fmt.Sprint("fill", i), strings.Repeat("x", 1<<20))
	}
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)

	refused := func(call func() error) {
		t.Helper()
		w.requests(t, nil, func() { err = call() })
		require.ErrorIs(t, err, driver.ErrRefused)
		assert.ErrorContains(t, err, "NOSPACE")
		assert.ErrorContains(t, err, "disarm")
	}
	refused(func() error { return second(o.Join(t.Context(), driver.JoinRequest{Queue: "new"})) })
	for _, req := range []driver.UpdateRequest{
		{Queue: "z", Entry: valued, Data: []byte("w")},
		{Queue: "z", Ops: []driver.Op{{Record: "limit", If: driver.Absent(), Value: []byte("2")}}},
	} {
		refused(func() error { return second(o.Update(t.Context(), req)) })
	}
	_, err = o.Update(t.Context(), driver.UpdateRequest{Queue: "x", Entry: waiting, Detail: []byte("granted")})
	require.NoError(t, err, "a detail is left out")
	deletes := func(why string, ref driver.Ref, ops ...driver.Op) {
		t.Helper()
		w.deletes(t, func() driver.Left { return o.leave(t, ref, ops...) }, why)
	}
	deletes("with its ledger", robust, driver.Op{Record: "ledger", If: driver.Equal([]byte("n"))})
	deletes("alone", plain)
	for _, ref := range line {
		w.deletes(t, func() driver.Left {
			left, err := o.Leave(t.Context(), driver.LeaveRequest{Ref: ref, First: true})
			require.NoError(t, err)
			return left[0]
		}, "that it was first is left out")
	}
	deletes("what needs space is left out", waiting, driver.Op{Record: "done", If: driver.Absent(), Value: []byte("n")})
	own.next(t, driver.Gone)
	assert.Equal(t, 0, count(t, client, "fairlock/x/")+count(t, client, "fairlock/line/")+count(t, client, "fairlock/%v2/"))

	watcher, err := o.b.Open(t.Context(), driver.Config{Observer: true, Logger: config().Logger, Gone: func(error) {}})
	require.NoError(t, err, "an observer needs no lease")
	v, err := watcher.Read(t.Context(), driver.ReadRequest{Queue: "z", Detail: true, Fresh: true})
	require.NoError(t, err)
	require.Len(t, v.Entries, 1)
	w.deletes(t, func() driver.Left {
		left, err := watcher.Leave(t.Context(), driver.LeaveRequest{Ref: v.Entries[0].Ref, Any: true})
		require.NoError(t, err)
		return left[0]
	}, "by an operator")
	require.NoError(t, watcher.Close(t.Context()))
	refused(func() error { return second(o.b.Open(t.Context(), config())) })
	assert.Empty(t, o.losses())
}

func TestAWrappedClientIsRefused(t *testing.T) {
	plain := etcdtest.New(t, nil).Client(t)
	for name, wrap := range map[string]func(*clientv3.Client){
		"KV":      func(c *clientv3.Client) { c.KV = namespace.NewKV(c.KV, "team/") },
		"Watcher": func(c *clientv3.Client) { c.Watcher = namespace.NewWatcher(c.Watcher, "team/") },
		"Lease":   func(c *clientv3.Client) { c.Lease = namespace.NewLease(c.Lease, "team/") },
	} {
		kv, watcher, lease := plain.KV, plain.Watcher, plain.Lease
		wrap(plain)
		_, err := etcdbackend.NewBackend(plain, nil)
		require.ErrorIs(t, err, session.ErrInvalidOptions, name)
		assert.ErrorContains(t, err, "Options.Root")
		plain.KV, plain.Watcher, plain.Lease = kv, watcher, lease
	}
	_, err := etcdbackend.NewBackend(clientv3.NewCtxClient(t.Context()), nil)
	require.ErrorIs(t, err, session.ErrInvalidOptions)
	_, err = etcdbackend.NewBackend(plain, nil)
	require.NoError(t, err)
}

func TestAClosedClientEndsEveryCall(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client, err := cluster.NewClient(nil)
	require.NoError(t, err)
	o := open(t, client, nil, time.Hour) // no call returns because a lease has expired
	ref := o.put(t, "x")
	o.watch(t, ref.Target()).next(t, driver.Armed)
	require.NoError(t, client.Close())

	forever := context.Background()
	returns := func(name string, call func() error) error {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- call() }()
		err := recipetest.Wait(t, done, name+" returns")
		require.Error(t, err, name)
		return err
	}
	for name, call := range map[string]func() error{
		"Join":  func() error { return second(o.Join(forever, driver.JoinRequest{Queue: "y"})) },
		"Leave": func() error { return second(o.Leave(forever, driver.LeaveRequest{Ref: ref})) },
		"Read":  func() error { return second(o.Read(forever, driver.ReadRequest{Queue: "x"})) },
		"Names": func() error { return second(o.Names(forever, "")) },
		"Update": func() error {
			return second(o.Update(forever, driver.UpdateRequest{Queue: "x", Entry: ref, Marks: driver.MarkShared}))
		},
		"Open": func() error { return second(o.b.Open(forever, config())) },
	} {
		require.ErrorIs(t, returns(name, call), driver.ErrClosed, name)
	}
	recipetest.Until(t, "the loss of the session", func() bool { return len(o.losses()) > 0 })
	require.ErrorIs(t, o.losses()[0], driver.ErrClosed)
	_ = returns("Close", func() error { return o.Close(forever) })
}

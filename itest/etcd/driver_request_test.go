package etcd

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
)

func TestKeysAreUsedAgain(t *testing.T) {
	client, w := wired(t, etcdtest.New(t, nil))
	o := open(t, client, nil, recipetest.EventTTL)
	keys := map[string]bool{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			for range 50 {
				ref := o.put(t, "x")
				mu.Lock()
				keys[ref.Key] = true
				mu.Unlock()
				o.leave(t, ref)
			}
		})
	}
	wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.LessOrEqual(t, len(keys), 4+w.late, "a key whose delete was given up is not used again")
}

func TestTheKeyOfASettledJoinIsFree(t *testing.T) {
	client, w := wired(t, etcdtest.New(t, nil))
	o := open(t, client, nil, recipetest.EventTTL)
	ctx, cancel := context.WithCancel(t.Context())
	w.lost = cancel
	w.lose.Store(1 << 20)
	_, err := o.Join(ctx, driver.JoinRequest{Queue: "x"})
	var pending *driver.PendingError
	require.ErrorAs(t, err, &pending)
	w.lose.Store(0)
	require.NoError(t, pending.Settle(t.Context()))

	assert.Equal(t, fmt.Sprintf("fairlock/x/%s.0.x", o.ID()), o.put(t, "x").Key)
}

// A join of two queues whose answer is lost, and with it what would show the second one,
// is settled. Its keys are used again, each for one entry at a time.
func TestTheKeysOfASettledJoinOfSeveralAreUsedOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	lost, reads, txns, late := false, 0, 0, 0 // late: attempts that were given up
	client := clientWith(t, etcdtest.New(t, nil), func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			switch req.(type) {
			case *pb.TxnRequest:
				err := invoke(ctx, method, req, reply, cc, opts...)
				txns++
				if status.Code(err) == codes.Canceled {
					late++
				}
				if lost || err != nil {
					return err
				}
				lost = true
				return status.Error(codes.Unavailable, "answer lost by the test")
			case *pb.RangeRequest:
				if reads++; reads == 2 {
					cancel()
					return status.Error(codes.Unavailable, "answer lost by the test")
				}
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}))
	})
	o := open(t, client, nil, recipetest.EventTTL)
	_, err := o.Join(ctx, driver.JoinRequest{Queue: "x"}, driver.JoinRequest{Queue: "y"})
	var pending *driver.PendingError
	require.ErrorAs(t, err, &pending)
	require.NoError(t, pending.Settle(t.Context()))
	require.NoError(t, pending.Settle(t.Context()))

	for _, queue := range []string{"x", "y"} {
		keys, before, already := map[string]bool{}, txns, late
		for range 3 {
			keys[o.put(t, queue).Key] = true
		}
		if late == already {
			assert.Equal(t, 3, txns-before, "no join has found its key taken")
		}
		assert.Len(t, keys, 3)
		assert.True(t, keys[fmt.Sprintf("fairlock/%s/%s.0.x", queue, o.ID())], "the key is free")
		assert.Equal(t, 3, count(t, client, "fairlock/"+queue+"/"))
	}
}

// kindsOf names requests: T for a transaction, D for a delete, R for a read.
func kindsOf(reqs []any) (s string) {
	for _, r := range reqs {
		s += reflect.TypeOf(r).Elem().Name()[:1]
	}
	return s
}

// costs requires what a call sends.
func (w *wire) costs(t testing.TB, want, what string, prepare, f func()) {
	t.Helper()
	sent, _ := w.requests(t, prepare, f)
	assert.Equal(t, want, kindsOf(sent), what)
}

func TestTheRequestsOfEachCall(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client, w := wired(t, cluster)
	o, other := open(t, client, nil, recipetest.EventTTL), open(t, cluster.Client(t), nil, recipetest.EventTTL)
	var ref driver.Ref
	gone := func() {
		if ref.Key != "" {
			o.leave(t, ref)
		}
	}
	var left driver.Left
	for range 3 {
		w.costs(t, "T", "a join alone", gone, func() { ref = o.put(t, "x") })
		w.costs(t, "D", "a release of what nothing belongs to", func() {
			gone()
			ref = o.put(t, "x")
		}, func() { left = o.leave(t, ref) })
		assert.Equal(t, driver.Deleted, left)
	}
	other.put(t, "x")
	var j driver.Joined
	join := func(nearest int) func() {
		return func() {
			j = o.join(t, driver.JoinRequest{Queue: "x", Nearest: nearest})
			ref = j.Entry.Ref
		}
	}
	w.costs(t, "T", "a join behind one", gone, join(2))
	assert.True(t, j.View.Complete)
	ref = driver.Ref{} // this one stays
	w.costs(t, "T", "a join behind two, which sorts", gone, join(1))
	assert.Len(t, j.View.Entries, 1, "the nearest")
	assert.Equal(t, 2, j.View.Count)
	assert.False(t, j.View.Complete)
	w.costs(t, "R", "a read", nil, func() { o.read(t, driver.ReadRequest{Queue: "x", Upto: j.Entry.Place, Nearest: 2, Marks: true}) })
	w.costs(t, "T", "a read with records", nil, func() { o.read(t, driver.ReadRequest{Queue: "x", Upto: j.Entry.Place, Records: []string{"limit"}}) })
	var err error
	w.costs(t, "T", "a refused try", nil, func() { _, err = o.Join(t.Context(), driver.JoinRequest{Queue: "x", IfEmpty: true}) })
	var taken *driver.TakenError
	require.ErrorAs(t, err, &taken)
	assert.Equal(t, 3, taken.Count)
	assert.Equal(t, "{}", string(taken.First.Data))
}

func TestTheRequestsOfCallsWithRecords(t *testing.T) {
	client, w := wired(t, etcdtest.New(t, nil))
	o := open(t, client, nil, recipetest.EventTTL)
	var j driver.Joined
	var err error
	permits := driver.JoinRequest{Queue: "gpu", Mode: driver.Weighted, Weight: 1, Ops: []driver.Op{
		{Record: "limit", If: driver.EqualOrAbsent([]byte("2")), Value: []byte("2")},
	}}
	first := func() {
		permits.Queue += "x" // in a queue of its own
		j = o.join(t, permits)
	}
	w.costs(t, "TT", "the first join with a limit", nil, first)
	next := func() { j = o.join(t, permits) }
	w.costs(t, "T", "the next", nil, next)
	slot := driver.Op{Record: "slot/0", If: driver.Absent(), Value: []byte("n"), Bound: true}
	mark := func() {
		_, err = o.Update(t.Context(), driver.UpdateRequest{Queue: permits.Queue, Entry: j.Entry.Ref, Marks: driver.MarkAdmitted, Ops: []driver.Op{slot}})
	}
	w.costs(t, "T", "a mark and a slot", first, mark)
	require.NoError(t, err)
	w.costs(t, "T", "a release with a slot", func() {
		first()
		mark()
	}, func() {
		o.leave(t, j.Entry.Ref, driver.Op{Record: "slot/0", If: driver.Equal([]byte("n"))})
	})
}

func TestTheRequestsOfAJoinOfSeveral(t *testing.T) {
	client, w := wired(t, etcdtest.New(t, nil))
	o := open(t, client, nil, recipetest.EventTTL)
	reqs, leaves := make([]driver.JoinRequest, o.b.Info().MaxJoin), make([]driver.LeaveRequest, o.b.Info().MaxJoin)
	for i := range reqs {
		reqs[i] = driver.JoinRequest{Queue: fmt.Sprint("all", i), IfEmpty: true, Detail: []byte("d")}
	}
	w.costs(t, "TT", "a join of several, and a release", nil, func() {
		all, err := o.Join(t.Context(), reqs...)
		require.NoError(t, err)
		for i := range all {
			leaves[i].Ref = all[i].Entry.Ref
		}
		_, err = o.Leave(t.Context(), leaves...)
		require.NoError(t, err)
	})
	assert.Equal(t, 0, count(t, client, "fairlock/%v2/all"), "no detail is left")
}

// bytesOf returns the length of the answers.
func bytesOf(got []any) (n int) {
	for _, m := range got {
		n += proto.Size(m.(proto.Message))
	}
	return n
}

func TestValuesStayWhereTheyAre(t *testing.T) {
	client, w := wired(t, etcdtest.New(t, nil))
	var o *owner
	var long []byte
	var first, second driver.Joined
	candidate := driver.JoinRequest{Queue: "x", Valued: true, Detail: []byte("{}")}
	_, got := w.requests(t, func() {
		o = open(t, client, nil, recipetest.EventTTL) // on an empty queue: that before is closed
		long = bytes.Repeat([]byte("x"), o.b.Info().MaxData)
		candidate.Data = long
	}, func() {
		first, second = o.join(t, candidate), o.join(t, candidate)
		o.join(t, candidate)
		v := o.read(t, driver.ReadRequest{Queue: "x", Upto: second.Entry.Place, Marks: true})
		assert.Len(t, v.Entries, 2)
		try := candidate
		try.IfEmpty = true
		_, err := o.Join(t.Context(), try)
		var taken *driver.TakenError
		require.ErrorAs(t, err, &taken)
		_, err = o.Update(t.Context(), driver.UpdateRequest{Queue: "x", Entry: first.Entry.Ref, Data: append([]byte("y"), long[1:]...)})
		require.NoError(t, err)
		o.read(t, driver.ReadRequest{Queue: "x", Upto: second.Entry.Place, Marks: true})
		watch := o.watch(t, second.Entry.Target())
		watch.next(t, driver.Armed)
		require.NoError(t, o.Close(t.Context()))
	})
	assert.Equal(t, []driver.Ref{first.Entry.Ref}, refs(second.View.Entries))
	assert.Less(t, bytesOf(got), 8<<10, "all answers")
}

// Thousands of joins at once are slow, and answers come too late. If each of them then read
// the whole queue, the server would do nothing else any more.
func TestALostAnswerIsNotALongerOne(t *testing.T) {
	const others = 40
	for name, compacted := range map[string]bool{"as it was": false, "compacted": true} {
		t.Run(name, func(t *testing.T) {
			cluster := etcdtest.New(t, nil)
			admin := cluster.Client(t)
			client, w := wired(t, cluster)
			for i := range others {
				_, err := admin.Put(t.Context(), fmt.Sprintf("fairlock/x/%d", i), "")
				require.NoError(t, err)
			}
			o := open(t, client, nil, recipetest.EventTTL)
			w.lost = func() {
				if compacted {
					now, err := admin.Put(t.Context(), "x", "")
					if assert.NoError(t, err) {
						_, err = admin.Compact(t.Context(), now.Header.Revision)
						assert.NoError(t, err)
					}
				}
			}
			var j driver.Joined
			_, got := w.requests(t, func() {
				if ref := j.Entry.Ref; ref.Key != "" {
					o.leave(t, ref)
				}
				w.lose.Store(1)
			}, func() { j = o.join(t, driver.JoinRequest{Queue: "x"}) })

			ahead := others
			if compacted {
				ahead++ // its own may be gone, so nothing is subtracted for it
			}
			assert.Equal(t, ahead, j.View.Count)
			assert.Equal(t, others+1, count(t, admin, "fairlock/x/"))
			if w.gaveUp() == 0 {
				assert.Zero(t, count(t, admin, "fairlock/%fence/"), "what was found needs no fence")
			}
			for _, m := range got {
				if r, ok := m.(*pb.RangeResponse); ok {
					assert.LessOrEqual(t, len(r.Kvs), 1, "keys in an answer")
				}
			}
			o.leave(t, j.Entry.Ref)
		})
	}
}

// A read without values leaves open what an entry has become that was written since it was
// made. Only those are read once more.
func TestAWrittenEntryIsReadWithItsValue(t *testing.T) {
	client, w := wired(t, etcdtest.New(t, nil))
	o, outside := open(t, client, nil, recipetest.EventTTL), open(t, client, nil, recipetest.EventTTL)
	writer, written, plain := o.put(t, "rw"), o.put(t, "rw"), o.put(t, "rw")
	_, err := o.Update(t.Context(), driver.UpdateRequest{Queue: "rw", Entry: writer, Marks: driver.MarkShared})
	require.NoError(t, err)
	_, err = client.Put(t.Context(), written.Key, "by hand", clientv3.WithIgnoreLease())
	require.NoError(t, err)
	for range 40 {
		o.put(t, "rw")
	}
	for name, s := range map[string]*owner{"the owner": o, "another": outside} {
		var v driver.View
		sent, _ := w.requests(t, nil, func() { v = s.read(t, driver.ReadRequest{Queue: "rw", Upto: plain.Place, Marks: true}) })
		assert.LessOrEqual(t, len(sent), 2, name)
		require.Len(t, v.Entries, 3, name)
		assert.Equal(t, []bool{true, false, false}, []bool{v.Entries[0].Shares(), v.Entries[1].Shares(), v.Entries[2].Shares()}, name)
	}
}

// What belongs to an entry goes when its owner leaves, although another client has deleted
// the entry, and what is another's by then stays.
func TestNothingThatBelongsToADeletedEntryStays(t *testing.T) {
	client, w := wired(t, etcdtest.New(t, nil))
	o, other := open(t, client, nil, recipetest.EventTTL), open(t, client, nil, recipetest.EventTTL)
	slot := func(value []byte) driver.Op {
		return driver.Op{Record: "slot/0", If: driver.Absent(), Value: value, Bound: true}
	}
	strike := driver.Op{Record: "slot/0", If: driver.Equal([]byte("n")), Bound: true}
	request := driver.JoinRequest{Queue: "gpu", Valued: true, Data: []byte("web-1"), Detail: []byte("{}"), Ops: []driver.Op{slot([]byte("n"))}}
	ref := o.join(t, request).Entry.Ref
	require.Equal(t, 2, count(t, client, "fairlock/%v2/gpu/"), "its slot and its detail")
	own := o.watch(t, ref.Target())
	own.next(t, driver.Armed)
	_, err := client.Delete(t.Context(), ref.Key)
	require.NoError(t, err)
	own.next(t, driver.Gone)

	w.finds(t, func() driver.Left { return o.leave(t, ref, strike) }, driver.WasGone, "another client has deleted it")
	assert.Zero(t, count(t, client, "fairlock/gpu/")+count(t, client, "fairlock/%v2/"))
	theirs := other.put(t, "gpu")
	_, err = other.Update(t.Context(), driver.UpdateRequest{Queue: "gpu", Entry: theirs, Ops: []driver.Op{slot([]byte("m"))}})
	require.NoError(t, err)
	o.leave(t, ref, strike)
	assert.Equal(t, 1, count(t, client, "fairlock/%v2/gpu/slot/"), "that of another hold stays")
}

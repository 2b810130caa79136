package etcd

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

func TestKeysAreUsedAgain(t *testing.T) {
	client, w := wired(t, etcdtest.New(t, nil))
	o := open(t, client, nil, 5*time.Second)
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

func TestAKeyWhoseDeleteIsUnknownIsRetired(t *testing.T) {
	c := etcdHarness(etcdtest.New(t, nil)).Service(t).Client(t)
	o := openOn(t, c.Backend(), 10*time.Second)
	first := o.put(t, "x")
	c.Inject(fault.Leave, fault.LateRequest)
	assert.Equal(t, driver.Deleted, o.leave(t, first))
	second := o.put(t, "x")
	assert.NotEqual(t, first.Key, second.Key)
	c.Deliver()
	assert.Equal(t, []driver.Ref{second}, refs(o.read(t, driver.ReadRequest{Queue: "x"}).Entries))
}

func TestTheKeyOfASettledJoinIsFree(t *testing.T) {
	client, w := wired(t, etcdtest.New(t, nil))
	o := open(t, client, nil, 5*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	w.lose.Store(1 << 20)
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := o.Join(ctx, driver.JoinRequest{Queue: "x"})
	var pending *driver.PendingError
	require.ErrorAs(t, err, &pending)
	w.lose.Store(0)
	require.NoError(t, pending.Settle(t.Context()))

	assert.Equal(t, fmt.Sprintf("fairlock/x/%s.0", o.ID()), o.put(t, "x").Key)
}

// A join of two queues whose answer is lost, and with it what would show the second one,
// is settled. Its keys are used again, each for one entry at a time.
func TestTheKeysOfASettledJoinOfSeveralAreUsedOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	lost, reads, txns := false, 0, 0
	client := clientWith(t, etcdtest.New(t, nil), func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			switch req.(type) {
			case *pb.TxnRequest:
				txns++
				if err := invoke(ctx, method, req, reply, cc, opts...); lost || err != nil {
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
	o := open(t, client, nil, 20*time.Second)
	_, err := o.Join(ctx, driver.JoinRequest{Queue: "x"}, driver.JoinRequest{Queue: "y"})
	var pending *driver.PendingError
	require.ErrorAs(t, err, &pending)
	require.NoError(t, pending.Settle(t.Context()))
	require.NoError(t, pending.Settle(t.Context()))

	for _, queue := range []string{"x", "y"} {
		keys, before := map[string]bool{}, txns
		for range 3 {
			keys[o.put(t, queue).Key] = true
		}
		assert.Equal(t, 3, txns-before, "no join has found its key taken")
		assert.Len(t, keys, 3)
		assert.True(t, keys[fmt.Sprintf("fairlock/%s/%s.0", queue, o.ID())], "the key is free")
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

func TestTheRequestsOfEachCall(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client, w := wired(t, cluster)
	o, other := open(t, client, nil, 20*time.Second), open(t, cluster.Client(t), nil, 20*time.Second)
	costs := func(want, what string, f func()) {
		t.Helper()
		sent, _ := w.requests(t, f)
		assert.Equal(t, want, kindsOf(sent), what)
	}
	var ref driver.Ref
	for range 3 {
		costs("T", "a join alone", func() { ref = o.put(t, "x") })
		costs("D", "a release of what nothing belongs to", func() { assert.Equal(t, driver.Deleted, o.leave(t, ref)) })
	}
	other.put(t, "x")
	var j driver.Joined
	costs("T", "a join behind one", func() { j = o.join(t, driver.JoinRequest{Queue: "x", Nearest: 2}) })
	assert.True(t, j.View.Complete)
	costs("T", "a join behind two, which sorts", func() { j = o.join(t, driver.JoinRequest{Queue: "x", Nearest: 1}) })
	assert.Len(t, j.View.Entries, 1, "the nearest")
	assert.Equal(t, 2, j.View.Count)
	assert.False(t, j.View.Complete)
	costs("R", "a read", func() { o.read(t, driver.ReadRequest{Queue: "x", Upto: j.Entry.Place, Nearest: 2, Marks: true}) })
	costs("T", "a read with records", func() { o.read(t, driver.ReadRequest{Queue: "x", Upto: j.Entry.Place, Records: []string{"limit"}}) })
	costs("T", "a refused try", func() {
		_, err := o.Join(t.Context(), driver.JoinRequest{Queue: "x", IfEmpty: true})
		var taken *driver.TakenError
		require.ErrorAs(t, err, &taken)
		assert.Equal(t, 3, taken.Count)
		assert.Equal(t, "{}", string(taken.First.Data))
	})

	permits := driver.JoinRequest{Queue: "gpu", Mode: driver.Weighted, Weight: 1, Ops: []driver.Op{
		{Record: "limit", If: driver.EqualOrAbsent([]byte("2")), Value: []byte("2")},
	}}
	costs("TT", "the first join with a limit", func() {
		permits.Queue += "x"
		j = o.join(t, permits)
	})
	costs("T", "the next", func() { j = o.join(t, permits) })
	slot := driver.Op{Record: "slot/0", If: driver.Absent(), Value: []byte("n"), Bound: true}
	costs("T", "a mark and a slot", func() {
		_, err := o.Update(t.Context(), driver.UpdateRequest{Queue: permits.Queue, Entry: j.Entry.Ref, Marks: driver.MarkAdmitted, Ops: []driver.Op{slot}})
		require.NoError(t, err)
	})
	costs("T", "a release with a slot", func() {
		o.leave(t, j.Entry.Ref, driver.Op{Record: "slot/0", If: driver.Equal([]byte("n"))})
	})

	reqs, leaves := make([]driver.JoinRequest, o.b.Info().MaxJoin), make([]driver.LeaveRequest, o.b.Info().MaxJoin)
	for i := range reqs {
		reqs[i] = driver.JoinRequest{Queue: fmt.Sprint("all", i), IfEmpty: true, Detail: []byte("d")}
	}
	costs("TT", "a join of several, and a release", func() {
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
	o := open(t, client, nil, 20*time.Second)
	long := bytes.Repeat([]byte("x"), o.b.Info().MaxData)
	candidate := driver.JoinRequest{Queue: "x", Data: long, Valued: true, Detail: []byte("{}")}
	_, got := w.requests(t, func() {
		first, second := o.join(t, candidate), o.join(t, candidate)
		o.join(t, candidate)
		require.Equal(t, []driver.Ref{first.Entry.Ref}, refs(second.View.Entries))
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
			o := open(t, client, nil, 10*time.Second)
			w.lose.Store(1)
			if compacted {
				w.lose.Store(3) // with time to compact
				go func() {
					for count(t, admin, "fairlock/x/") == others {
					}
					now, err := admin.Put(t.Context(), "x", "")
					assert.NoError(t, err)
					_, err = admin.Compact(t.Context(), now.Header.Revision)
					assert.NoError(t, err)
				}()
			}
			var j driver.Joined
			_, got := w.requests(t, func() { j = o.join(t, driver.JoinRequest{Queue: "x"}) })

			assert.Equal(t, others, j.View.Count)
			assert.Equal(t, others+1, count(t, admin, "fairlock/x/"))
			assert.Zero(t, count(t, admin, "fairlock/%fence/"), "what was found needs no fence")
			for _, m := range got {
				if r, ok := m.(*pb.RangeResponse); ok {
					assert.LessOrEqual(t, len(r.Kvs), 1, "keys in an answer")
				}
			}
			o.leave(t, j.Entry.Ref)
		})
	}
}

func TestADeepQueueIsReadBeforeATry(t *testing.T) {
	client, w := wired(t, etcdtest.New(t, nil))
	o := open(t, client, nil, 20*time.Second)
	first := o.put(t, "x")
	for range 40 {
		o.put(t, "x")
	}
	for range 3 {
		sent, _ := w.requests(t, func() {
			_, err := o.Join(t.Context(), driver.JoinRequest{Queue: "x", IfEmpty: true})
			var taken *driver.TakenError
			require.ErrorAs(t, err, &taken)
			assert.Equal(t, 41, taken.Count)
			assert.Equal(t, first, taken.First.Ref)
		})
		assert.Equal(t, "RT", kindsOf(sent), "two reads, and no transaction that writes")
	}
}

// A read without values leaves open what an entry has become that was written since it was
// made. Only those are read once more.
func TestAWrittenEntryIsReadWithItsValue(t *testing.T) {
	client, w := wired(t, etcdtest.New(t, nil))
	o, outside := open(t, client, nil, 10*time.Second), open(t, client, nil, 10*time.Second)
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
		sent, _ := w.requests(t, func() { v = s.read(t, driver.ReadRequest{Queue: "rw", Upto: plain.Place, Marks: true}) })
		assert.LessOrEqual(t, len(sent), 2, name)
		require.Len(t, v.Entries, 3, name)
		assert.Equal(t, []bool{true, false, false}, []bool{v.Entries[0].Shares(), v.Entries[1].Shares(), v.Entries[2].Shares()}, name)
	}
}

// What belongs to an entry goes when its owner leaves, although another client has deleted
// the entry, and what is another's by then stays.
func TestNothingThatBelongsToADeletedEntryStays(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	o, other := open(t, client, nil, 30*time.Second), open(t, client, nil, 30*time.Second)
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

	assert.Equal(t, driver.WasGone, o.leave(t, ref, strike))
	assert.Zero(t, count(t, client, "fairlock/"))
	theirs := other.put(t, "gpu")
	_, err = other.Update(t.Context(), driver.UpdateRequest{Queue: "gpu", Entry: theirs, Ops: []driver.Op{slot([]byte("m"))}})
	require.NoError(t, err)
	o.leave(t, ref, strike)
	assert.Equal(t, 1, count(t, client, "fairlock/%v2/gpu/slot/"), "that of another hold stays")
}

// flight holds deletes back until so many of them are under way.
type flight struct {
	until int
	full  chan struct{}

	mu        sync.Mutex
	now, most int
}

func (f *flight) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if _, ok := req.(*pb.DeleteRangeRequest); !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	f.mu.Lock()
	f.now++
	if f.now > f.most {
		if f.most = f.now; f.most == f.until {
			close(f.full)
		}
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
	}()
	select {
	case <-f.full:
	case <-ctx.Done():
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// Of thousands that are sent at once most are not answered in the time of an attempt, and
// were sent again and again.
func TestLeavesAreSentAsTheyCanBeAnswered(t *testing.T) {
	const atOnce, all = 256, 1000
	f := &flight{until: atOnce, full: make(chan struct{})}
	client := clientWith(t, etcdtest.New(t, nil), func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(f.unary))
	})
	o := open(t, client, nil, 20*time.Second)
	var made [all]driver.Ref
	for i := range all {
		made[i] = o.put(t, fmt.Sprint("x", i))
	}

	var leaving sync.WaitGroup
	for _, ref := range made {
		leaving.Go(func() {
			_, err := o.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
			assert.NoError(t, err)
		})
	}
	leaving.Wait()

	assert.Equal(t, atOnce, f.most)
	assert.Zero(t, count(t, client, "fairlock/x"))
}

package etcd

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/client/v3/namespace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/session/driver"
)

// meter counts the requests of a client, those of them that it gave up, and the
// bytes of the answers.
type meter struct{ requests, late, bytes atomic.Int64 }

func meteredClient(t *testing.T, c *etcdtest.Cluster) (*clientv3.Client, *meter) {
	m := &meter{}
	return clientWith(t, c, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				err := invoke(ctx, method, req, reply, cc, opts...)
				m.requests.Add(1)
				if status.Code(err) == codes.Canceled {
					m.late.Add(1)
				}
				m.bytes.Add(size(reply))
				return err
			}))
	}), m
}

// size is the length of an answer.
func size(reply any) int64 {
	if m, ok := reply.(proto.Message); ok {
		return int64(proto.Size(m))
	}
	return int64(reply.(interface{ Size() int }).Size())
}

// costs requires a number of round trips, exactly, unless one had no answer in time:
// then it was made again.
func (m *meter) costs(t *testing.T, want int64, what string, f func()) {
	t.Helper()
	before, late := m.requests.Load(), m.late.Load()
	f()
	if m.late.Load() == late {
		assert.Equal(t, want, m.requests.Load()-before, "round trips of %s", what)
	}
}

// bill says what things cost, and remembers what was not as it should be.
type bill struct {
	*meter
	wrong []string
}

// Errorf implements assert.TestingT.
func (b *bill) Errorf(format string, args ...any) {
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// costs wants a number of round trips, exactly.
func (b *bill) costs(want int64, what string, f func()) {
	before := b.requests.Load()
	f()
	assert.Equal(b, want, b.requests.Load()-before, "round trips of %s", what)
}

// TestEtcdDriverRoundTrips is about what is answered. An attempt that has no answer
// in its time is made again, and what it has done is found out; so on a machine that
// stands still it is played again.
func TestEtcdDriverRoundTrips(t *testing.T) {
	for range 5 {
		client, m := meteredClient(t, etcdtest.New(t, nil))
		b := &bill{meter: m}
		roundTrips(t, b, lease(t, client, nil, 10*time.Second))
		if len(b.wrong) == 0 {
			return
		}
		require.NotZero(t, m.late.Load(), "%s", b.wrong)
	}
	require.Fail(t, "some attempt was given up each time")
}

func roundTrips(t *testing.T, m *bill, l *leased) {
	t.Helper()
	must := func(err error) { t.Helper(); require.NoError(t, err) }
	join := func(req driver.JoinRequest) (j driver.Joined) {
		t.Helper()
		j, err := l.Join(t.Context(), req)
		must(err)
		return j
	}
	leave := func(req driver.LeaveRequest) {
		_, err := l.Leave(t.Context(), req)
		must(err)
	}
	permits := driver.JoinRequest{Line: "gpu", Mode: driver.Weighted, Weight: 1, Limit: 2}
	var a, b, c driver.Joined
	m.costs(2, "the first join with a limit", func() { a = join(permits) })
	m.costs(1, "the next", func() { b = join(permits) })
	follow := permits
	follow.Limit, follow.Follow = 9, true
	m.costs(1, "one that follows", func() { c = join(follow) })
	assert.EqualValues(m, 2, c.Limit)
	m.costs(1, "one that follows nobody", func() {
		first := follow
		first.Line = "tpu"
		assert.EqualValues(m, 9, join(first).Limit)
	})
	m.costs(1, "a join with another limit", func() {
		other := permits
		other.Limit = 3
		_, err := l.Join(t.Context(), other)
		assert.ErrorIs(m, err, driver.ErrLimitMismatch)
	})
	m.costs(1, "a look at line and limit", func() {
		v, err := l.Look(t.Context(), driver.LookRequest{Line: "gpu", Upto: c.Entry.Place, Limit: true})
		must(err)
		assert.EqualValues(m, 2, v.Limit)
		assert.Len(m, v.Entries, 3)
	})
	claim := func(ref driver.Ref, want int) func() {
		return func() {
			n, err := l.Claim(t.Context(), ref)
			must(err)
			assert.Equal(m, want, n.N)
		}
	}
	m.costs(1, "a claim where 0 is free", claim(a.Entry.Ref, 0))
	m.costs(2, "a claim where it is not", claim(b.Entry.Ref, 1))
	m.costs(0, "a claim again", claim(b.Entry.Ref, 1))
	m.costs(1, "a note that it holds", func() { must(l.Admit(t.Context(), b.Entry.Ref)) })
	m.costs(1, "giving a permit and a number back", func() { leave(driver.LeaveRequest{Ref: a.Entry.Ref}) })
	m.costs(1, "a claim of what was given back", claim(c.Entry.Ref, 0))

	lock := driver.JoinRequest{Line: "x", Ledger: true}
	for range 3 {
		m.costs(1, "a join with a ledger", func() { a = join(lock) })
		assert.True(m, a.Entered)
		m.costs(1, "a join behind", func() { b = join(lock) })
		assert.False(m, b.Entered)
		m.costs(1, "giving back cleanly", func() {
			leave(driver.LeaveRequest{Ref: a.Entry.Ref, Clean: true, Probe: b.Entry.Ref})
		})
		m.costs(1, "entering after that", func() {
			past, err := l.Enter(t.Context(), b.Entry.Ref)
			must(err)
			assert.Equal(m, driver.PastClean, past)
		})
		leave(driver.LeaveRequest{Ref: b.Entry.Ref, Clean: true})
	}

	var all []driver.Joined
	reqs := make([]driver.JoinRequest, l.b.Profile().MaxAll)
	leaves := make([]driver.LeaveRequest, len(reqs))
	for i := range reqs {
		reqs[i] = driver.JoinRequest{Line: fmt.Sprint("all", i), IfEmpty: true}
	}
	m.costs(1, "a join of several", func() {
		var err error
		all, err = l.JoinAll(t.Context(), reqs)
		must(err)
	})
	for i, j := range all {
		leaves[i] = driver.LeaveRequest{Ref: j.Entry.Ref, Clean: true}
	}
	m.costs(1, "giving several back", func() {
		_, err := l.LeaveAll(t.Context(), leaves)
		must(err)
	})
	writer := l.join(t, "rw")
	m.costs(1, "a downgrade", func() {
		_, err := l.Share(t.Context(), writer.Entry.Ref)
		must(err)
	})
}

func TestEtcdDriverLooksLeaveValuesWhereTheyAre(t *testing.T) {
	client, m := meteredClient(t, etcdtest.New(t, nil))
	l := lease(t, client, nil, 20*time.Second)
	long := bytes.Repeat([]byte("x"), l.b.Profile().MaxValue)
	candidate := driver.JoinRequest{Line: "x", Value: long, Meta: driver.Meta{Kind: "election"}}
	first, err := l.Join(t.Context(), candidate)
	require.NoError(t, err)

	second, err := l.Join(t.Context(), candidate)
	require.NoError(t, err)
	require.Len(t, second.Known, 1)
	assert.Equal(t, first.Entry.Ref, second.Known[0].Ref)
	v, err := l.Look(t.Context(), driver.LookRequest{Line: "x", Upto: second.Entry.Place})
	require.NoError(t, err)
	assert.Len(t, v.Entries, 2)
	candidate.IfEmpty = true
	_, err = l.Join(t.Context(), candidate)
	var taken *driver.TakenError
	require.ErrorAs(t, err, &taken)
	assert.Equal(t, 2, taken.Count)
	require.NoError(t, l.Write(t.Context(), first.Entry.Ref, append([]byte("y"), long[1:]...)))
	_, err = l.Look(t.Context(), driver.LookRequest{Line: "x", Upto: second.Entry.Place})
	require.NoError(t, err)

	assert.Less(t, m.bytes.Load(), int64(8<<10), "all answers so far")
	require.ErrorIs(t, l.Write(t.Context(), first.Entry.Ref, append(long, 'x')), driver.ErrRefused)
	candidate.Value = append(long, 'x')
	_, err = l.Join(t.Context(), candidate)
	require.ErrorIs(t, err, driver.ErrRefused)
}

// Through a client that renames keys, every request and every watch works as
// it does without.
func TestEtcdDriverSeveralInANamespace(t *testing.T) {
	plain := etcdtest.New(t, nil).Client(t)
	client := clientv3.NewCtxClient(t.Context())
	client.KV = namespace.NewKV(plain.KV, "team/")
	client.Watcher = namespace.NewWatcher(plain.Watcher, "team/")
	client.Lease = namespace.NewLease(plain.Lease, "team/")
	l := lease(t, client, nil, 10*time.Second)
	permits := driver.JoinRequest{Line: "gpu", Mode: driver.Weighted, Weight: 1, Limit: 2, Ledger: true}
	a, err := l.Join(t.Context(), permits)
	require.NoError(t, err)
	assert.True(t, a.Entered)
	permits.Follow = true
	b, err := l.Join(t.Context(), permits)
	require.NoError(t, err)
	assert.EqualValues(t, 2, b.Limit)
	behind, err := l.Join(t.Context(), permits)
	require.NoError(t, err)

	assert.False(t, l.b.Profile().Ordered, "a wrapped client cannot be asked for its server's version")
	own := l.watch(t, driver.WatchRequest{Ref: behind.Entry.Ref, Own: true})
	own.next(t, driver.Armed)
	line := func(of driver.Aspect, upto int64) events {
		ch := l.watch(t, driver.WatchRequest{Of: of, Ref: driver.Ref{Line: "gpu", Place: upto}})
		ch.next(t, driver.Armed)
		return ch
	}
	whole, limit, ahead := line(driver.OfLine, 0), line(driver.OfLimit, 0), line(driver.OfAdmitted, b.Entry.Place)
	require.NoError(t, l.SetLimit(t.Context(), "gpu", 3))
	limit.next(t, driver.Changed)
	require.NoError(t, l.Admit(t.Context(), a.Entry.Ref))
	whole.next(t, driver.Changed)
	v, err := l.Look(t.Context(), driver.LookRequest{Line: "gpu", Upto: b.Entry.Place, Limit: true})
	require.NoError(t, err)
	assert.EqualValues(t, 3, v.Limit)
	assert.True(t, v.Entries[0].Admitted)
	for want, ref := range []driver.Ref{a.Entry.Ref, b.Entry.Ref} {
		n, err := l.Claim(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, want, n.N)
	}
	l.leave(t, behind.Entry.Ref)
	own.next(t, driver.Gone)
	left, err := l.Leave(t.Context(), driver.LeaveRequest{Ref: a.Entry.Ref, Clean: true})
	require.NoError(t, err)
	assert.Equal(t, left.Rev, ahead.next(t, driver.Changed).Rev, "of those ahead only")
	past, err := l.Enter(t.Context(), b.Entry.Ref)
	require.NoError(t, err)
	assert.Equal(t, driver.PastClean, past)

	all, err := l.JoinAll(t.Context(), []driver.JoinRequest{{Line: "p"}, {Line: "q"}})
	require.NoError(t, err)
	_, err = l.Share(t.Context(), all[0].Entry.Ref)
	require.NoError(t, err)
	list, err := l.b.List(t.Context(), "p", 0)
	require.NoError(t, err)
	assert.Equal(t, driver.Shared, list[0].Mode)
	lefts, err := l.LeaveAll(t.Context(), []driver.LeaveRequest{{Ref: all[0].Entry.Ref}, {Ref: all[1].Entry.Ref}})
	require.NoError(t, err)
	assert.False(t, lefts[0].Gone || lefts[1].Gone)
	require.NoError(t, l.Close(t.Context()))
	assert.Equal(t, 2, count(t, plain, "team/fairlock/"), "limit and ledger stay")
	assert.Equal(t, 2, count(t, plain, ""), "and nothing is elsewhere")
}

func TestEtcdDriverValuesAmongOthersElections(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	l := lease(t, client, &etcdbackend.Options{Layout: etcdbackend.LayoutConcurrency}, 10*time.Second)
	theirs, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, theirs.Close()) })
	ours, err := l.Join(t.Context(), driver.JoinRequest{Line: "a/b", Value: []byte("web-1"), Meta: driver.Meta{Kind: "election"}})
	require.NoError(t, err)

	e := concurrency.NewElection(theirs, "a/b")
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "web-1", string(leader.Kvs[0].Value))
	require.NoError(t, l.Write(t.Context(), ours.Entry.Ref, []byte("web-1:80")))
	leader, err = e.Leader(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "web-1:80", string(leader.Kvs[0].Value))
	assert.Equal(t, ours.Entry.Token, leader.Kvs[0].CreateRevision)
	assert.Equal(t, 1, count(t, client, "a/"), "nothing but the entry lies there")

	m := concurrency.NewMutex(theirs, "a/b")
	require.ErrorIs(t, m.TryLock(t.Context()), concurrency.ErrLocked)
	l.leave(t, ours.Entry.Ref)
	require.NoError(t, e.Campaign(t.Context(), "theirs"))
	list, err := l.b.List(t.Context(), "a/b", 0)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.True(t, list[0].Foreign)
	assert.Equal(t, fmt.Sprintf("%x", int64(theirs.Lease())), list[0].Session)
	assert.Equal(t, "theirs", string(list[0].Value))

	_, err = l.JoinAll(t.Context(), []driver.JoinRequest{{Line: "a"}, {Line: "a/b"}})
	require.ErrorIs(t, err, driver.ErrRefused)
	all, err := l.JoinAll(t.Context(), []driver.JoinRequest{{Line: "a/b"}, {Line: "b"}})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 0}, []int{all[0].Ahead, all[1].Ahead})
	names, err := l.b.Names(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, []string{"a/b", "b"}, names)
}

package concurrency_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/compat/concurrency"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// What is open in etcd's own package. Each test is red there.

// TestIssue19597AWaiterEndsWithItsSession, and not when the holder releases.
func TestIssue19597AWaiterEndsWithItsSession(t *testing.T) {
	f := newFixture(t, nil)
	holder := concurrency.NewMutex(f.session(), "a")
	require.NoError(t, holder.Lock(f.soon()))
	leader := concurrency.NewElection(f.session(), "e")
	require.NoError(t, leader.Campaign(f.soon(), "leader"))

	s := f.session()
	locks := inBackground(func() error { return concurrency.NewMutex(s, "a").Lock(f.soon()) })
	campaigns := inBackground(func() error { return concurrency.NewElection(s, "e").Campaign(f.soon(), "waits") })
	f.queued("a/", 2)
	f.queued("e/", 2)
	f.revoke(s)

	require.ErrorIs(t, recipetest.Wait(t, locks, "an error of Lock"), concurrency.ErrSessionExpired)
	err := recipetest.Wait(t, campaigns, "an error of Campaign")
	require.ErrorIs(t, err, concurrency.ErrElectionNotLeader)
	require.ErrorIs(t, err, concurrency.ErrSessionExpired)
	recipetest.Wait(t, s.Done(), "the end of the session")
	assert.True(t, f.holds(holder))
	leases, err := f.client.Leases(f.soon())
	require.NoError(t, err)
	assert.Len(t, leases.Leases, 2, "no waiter has opened another lease")
	assert.Len(t, f.keys("a/"), 1)
	assert.Len(t, f.keys("e/"), 1)
}

// TestIssue21128ACampaignGoesOnAfterACompaction: a watch that is made again begins at a revision
// that was compacted.
func TestIssue21128ACampaignGoesOnAfterACompaction(t *testing.T) {
	f := newFixture(t, &etcdtest.Options{Proxied: true})
	direct, err := clientv3.New(clientv3.Config{Endpoints: []string{f.cluster.Member(0).Direct()}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, direct.Close()) })
	leader := concurrency.NewElection(f.session(), "e")
	require.NoError(t, leader.Campaign(f.soon(), "leader"))
	waits := concurrency.NewElection(f.session(), "e")
	campaigns := inBackground(func() error { return waits.Campaign(f.soon(), "waits") })
	behind := concurrency.NewElection(f.session(), "e")
	f.queued("e/", 2)
	ctx, cancel := context.WithCancel(f.soon())
	late := inBackground(func() error { return behind.Campaign(ctx, "behind") })
	f.queued("e/", 3)

	proxy := f.cluster.Member(0).ClientProxy()
	proxy.Refuse(true)
	proxy.Reset()
	put, err := direct.Put(f.soon(), "other", "")
	require.NoError(t, err)
	_, err = direct.Compact(f.soon(), put.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	proxy.Refuse(false)

	blocked(t, campaigns)
	require.NoError(t, leader.Resign(f.soon()))
	require.NoError(t, recipetest.Wait(t, campaigns, "the place in the queue"))
	cancel()
	require.ErrorIs(t, recipetest.Wait(t, late, "an error of Campaign"), context.Canceled)
	f.queued("e/", 1)
	require.NoError(t, waits.Resign(f.soon()))
	f.queued("e/", 0)
}

// TestIssue22082AStaleUnlockReleasesNoLaterLock: the deletion is carried out, and its answer is
// lost. After an error with the code of a context's end, etcd's client would repeat it by itself.
func TestIssue22082AStaleUnlockReleasesNoLaterLock(t *testing.T) {
	f := newFixture(t, nil)
	for i, lost := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded} {
		var loses atomic.Bool
		client, err := f.cluster.NewClient(func(cfg *clientv3.Config) {
			cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(func(
				ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
			) error {
				err := invoke(ctx, method, req, reply, cc, opts...)
				if err == nil && deletes(req) && loses.CompareAndSwap(true, false) {
					return status.Error(lost, "the answer is lost")
				}
				return err
			}))
		})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		s := f.sessionOn(client)
		name := string(rune('a' + i))
		old, current := concurrency.NewMutex(s, name), concurrency.NewMutex(s, name)
		require.NoError(t, old.Lock(f.soon()))

		loses.Store(true)
		require.NoError(t, old.Unlock(f.soon()), "%v", lost)
		require.False(t, loses.Load(), "the answer to the deletion was lost")
		require.NoError(t, current.Lock(f.soon()))
		require.ErrorIs(t, old.Unlock(f.soon()), concurrency.ErrLockReleased)
		assert.True(t, f.holds(current))
		assert.Equal(t, []string{current.Key()}, f.keys(name+"/"))
		require.NoError(t, current.Unlock(f.soon()))
	}
}

// deletes reports whether a request deletes a key, at least if its conditions hold.
func deletes(req any) bool {
	switch r := req.(type) {
	case *pb.DeleteRangeRequest:
		return true
	case *pb.TxnRequest:
		return slices.ContainsFunc(r.Success, func(op *pb.RequestOp) bool { return op.GetRequestDeleteRange() != nil })
	}
	return false
}

// TestIssue22123AResignationIsNotForgotten: its context has ended before.
func TestIssue22123AResignationIsNotForgotten(t *testing.T) {
	f := newFixture(t, nil)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s := f.session()
	e := concurrency.NewElection(s, "e")
	require.NoError(t, e.Campaign(f.soon(), "leader"))
	require.NoError(t, e.Resign(over))
	assert.Empty(t, e.Key())
	assert.Empty(t, f.keys("e/"))

	// A leadership that another session has begun is ended by one request with the context.
	require.NoError(t, e.Campaign(f.soon(), "leader"))
	resumed := concurrency.ResumeElection(f.session(), "e/", e.Key(), e.Rev())
	require.ErrorIs(t, resumed.Resign(over), context.Canceled)
	assert.Equal(t, e.Key(), resumed.Key())
	require.NoError(t, resumed.Resign(f.soon()))
	assert.Empty(t, f.keys("e/"))
}

package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

const (
	ms      = time.Millisecond
	members = 3
)

// clock is the virtual time of a test.
type clock struct{ driver.Clock }

func (clock) Now() driver.Instant { return driver.Instant(time.Now().UnixNano()) }

// client is etcd's lease service, and what a Lease has asked of it and reported.
type client struct {
	pb.LeaseClient
	grant  func(n int) error                                       // answers the n-th request for a lease
	answer func(ctx context.Context, n int) (ttl int64, err error) // answers the n-th renewal
	terms  func() (renews, reads uint64)                           // of the members that answer; nil: both 7
	read   func(n int) time.Duration                               // how long the n-th read takes; nil: no time
	lives  bool                                                    // the cluster has the lease, although a member does not know it

	granted int64 // the TTL of a lease that exists

	began time.Time
	send  *rpc.Sender
	log   strings.Builder

	mu       sync.Mutex
	grants   []*pb.LeaseGrantRequest
	attempts []time.Duration // when renewals were sent
	reads    int
	revoked  int
	renewed  []time.Duration // the times of sending that were reported
	gone     []error
}

func (c *client) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest, _ ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	c.grants = append(c.grants, r)
	if c.grant != nil {
		if err := c.grant(len(c.grants)); err != nil {
			return nil, err
		}
	}
	return &pb.LeaseGrantResponse{ID: 0xabc, TTL: r.TTL}, nil
}

func (c *client) LeaseTimeToLive(_ context.Context, r *pb.LeaseTimeToLiveRequest, _ ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	if r.ID != 0xabc {
		return &pb.LeaseTimeToLiveResponse{ID: r.ID, TTL: -1}, nil
	}
	return &pb.LeaseTimeToLiveResponse{ID: r.ID, TTL: c.granted / 2, GrantedTTL: c.granted}, nil
}

func (c *client) LeaseRevoke(context.Context, *pb.LeaseRevokeRequest, ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	c.revoked++
	return &pb.LeaseRevokeResponse{}, rpctypes.ErrGRPCLeaseNotFound
}

func (c *client) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	return &keepAlive{c: c, ctx: ctx, answer: make(chan func() (*pb.LeaseKeepAliveResponse, error), 1)}, nil
}

// keepAlive is a stream of renewals.
type keepAlive struct {
	grpc.ClientStream
	c      *client
	ctx    context.Context
	answer chan func() (*pb.LeaseKeepAliveResponse, error)
}

func (k *keepAlive) Send(*pb.LeaseKeepAliveRequest) error {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	k.c.attempts = append(k.c.attempts, time.Since(k.c.began))
	n := len(k.c.attempts)
	go func() { // ends with the answer, or with ctx
		ttl, err := k.c.answer(k.ctx, n)
		renews, _ := k.c.term()
		k.answer <- func() (*pb.LeaseKeepAliveResponse, error) {
			return &pb.LeaseKeepAliveResponse{ID: 0xabc, TTL: ttl, Header: &pb.ResponseHeader{RaftTerm: renews}}, err
		}
	}()
	return nil
}

func (k *keepAlive) Recv() (*pb.LeaseKeepAliveResponse, error) { return (<-k.answer)() }

func (c *client) term() (renews, reads uint64) {
	if c.terms == nil {
		return 7, 7
	}
	return c.terms()
}

// kv is etcd's KV service.
type kv struct {
	pb.KVClient
	c *client
}

func (s kv) Range(ctx context.Context, req *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	s.c.mu.Lock()
	s.c.reads++
	n := s.c.reads
	s.c.mu.Unlock()
	if s.c.read != nil {
		if _, err := after(ctx, s.c.read(n)); err != nil {
			return nil, err
		}
	}
	if string(req.Key) != "key" || req.Serializable {
		return nil, status.Error(codes.PermissionDenied, "it may not read that, and must ask the leader")
	}
	_, reads := s.c.term()
	return &pb.RangeResponse{Header: &pb.ResponseHeader{RaftTerm: reads}}, nil
}

func (s kv) Put(_ context.Context, req *pb.PutRequest, _ ...grpc.CallOption) (*pb.PutResponse, error) {
	switch {
	case string(req.Key) != "key":
		return nil, status.Error(codes.PermissionDenied, "it may not write that")
	case req.Lease != 0xabc || !s.c.lives:
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	return &pb.PutResponse{}, nil
}

// TestARenewalOfAnotherTermDoesNotCount: a leader that leads no more has answered from memory, or
// a member that was restored from a snapshot shows a term of before.
func TestARenewalOfAnotherTermDoesNotCount(t *testing.T) {
	began := func(c *client, d time.Duration) bool { return time.Since(c.began) < d }
	for name, terms := range map[string]func(c *client) (renews, reads uint64){
		"the renewal is of an older leader": func(c *client) (uint64, uint64) {
			if began(c, 5*time.Second) {
				return 7, 8
			}
			return 8, 8
		},
		"and another member shows that term": func(c *client) (uint64, uint64) {
			switch {
			case began(c, 3*time.Second+ms): // the first attempt
				return 7, 8
			case began(c, 5*time.Second):
				return 7, 7
			}
			return 8, 8
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &client{answer: func(ctx context.Context, _ int) (int64, error) { return after(ctx, 0) }}
			c.terms = func() (uint64, uint64) { return terms(c) }
			test(t, c, func(t *testing.T, _ *Lease) {
				c.pause(4900 * ms)
				assert.Equal(t, []time.Duration{0}, c.renewed, "the grant is a commit")
				assert.Greater(t, len(c.attempts), 3, "each goes to the next endpoint")
				c.pause(time.Second)
				require.Len(t, c.renewed, 2)
				assert.Greater(t, c.renewed[1], 5*time.Second)
				assert.Empty(t, c.gone)
			})
		})
	}
}

// TestALeaseThatOneMemberDoesNotKnowIsKept: it leads no more, or lags behind.
func TestALeaseThatOneMemberDoesNotKnowIsKept(t *testing.T) {
	c := &client{lives: true}
	c.answer = func(ctx context.Context, n int) (int64, error) {
		if n < 3 {
			return 0, nil
		}
		return after(ctx, 0)
	}
	test(t, c, func(t *testing.T, _ *Lease) {
		c.pause(4 * time.Second)
		assert.Empty(t, c.gone)
		assert.Len(t, c.renewed, 2)
		assert.Contains(t, c.log.String(), "does not know the lease")
	})
}

// TestALateAnswerToTheReadIsNotAddedToThatOfTheRenewal, and is waited for like that.
func TestALateAnswerToTheReadIsNotAddedToThatOfTheRenewal(t *testing.T) {
	c := &client{
		answer: func(ctx context.Context, _ int) (int64, error) { return after(ctx, 5*time.Second) },
		read:   func(int) time.Duration { return 5 * time.Second },
	}
	test(t, c, func(t *testing.T, l *Lease) {
		c.pause(l.lag() + 5100*ms)
		assert.Equal(t, []time.Duration{0, l.lag()}, c.renewed)
	})
}

// TestARenewalReadsFromEachMember, so a dead one delays nothing, and the next request does not
// meet the same connection as the one before the renewal.
func TestARenewalReadsFromEachMember(t *testing.T) {
	c := &client{answer: func(ctx context.Context, _ int) (int64, error) { return after(ctx, 0) }}
	c.read = func(n int) time.Duration {
		if n%members == 1 {
			return time.Hour
		}
		return 0
	}
	test(t, c, func(t *testing.T, l *Lease) {
		c.pause(2*l.lag() + ms)
		assert.Equal(t, []time.Duration{0, l.lag(), 2 * l.lag()}, c.renewed)
		assert.Equal(t, 2*members, c.reads)
	})
}

// after answers with a TTL of 10 s when d has passed.
func after(ctx context.Context, d time.Duration) (int64, error) {
	select {
	case <-time.After(d):
		return 10, nil
	case <-ctx.Done():
		return 0, status.FromContextError(ctx.Err()).Err()
	}
}

// config is that of a session with a TTL of 10 s and a window of 9 s.
func (c *client) config() driver.Config {
	return driver.Config{
		TTL:    10 * time.Second,
		Margin: func(time.Duration) time.Duration { return time.Second },
		Renewed: func(sent driver.Instant, _, _ time.Duration) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.renewed = append(c.renewed, sent.Sub(driver.Instant(c.began.UnixNano())))
		},
		Gone: func(err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.gone = append(c.gone, err)
		},
		Logger: slog.New(slog.NewTextHandler(&c.log, nil)),
	}
}

// test calls f in virtual time, with a Lease that was granted at its begin.
func test(t *testing.T, c *client, f func(t *testing.T, l *Lease)) {
	bubble(t, c, func(t *testing.T) {
		l, err := Grant(t.Context(), c.send, c.config(), []byte("key"))
		require.NoError(t, err)
		c.mu.Lock()
		f(t, l)
		c.mu.Unlock()
		c.send.End(driver.ErrClosed)
		l.wg.Wait()
	})
}

func bubble(t *testing.T, c *client, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		etcd, err := clientv3.New(clientv3.Config{Endpoints: slices.Repeat([]string{"127.0.0.1:1"}, members), Logger: zap.NewNop()})
		require.NoError(t, err)
		defer func() { _ = etcd.Close() }()
		r, err := rpc.New(etcd, clock{driver.SystemClock()})
		require.NoError(t, err)
		r.Lease, r.KV = c, kv{c: c}
		c.send, c.began = r.NewSender(10*time.Second, 9*time.Second), time.Now()
		f(t)
	})
}

// pause lets time pass, and everything happen that is due then. Until the next pause the
// test may read what c has recorded.
func (c *client) pause(d time.Duration) {
	c.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
	c.mu.Lock()
}

// TestAGrantCountsFromItsSending: on a slow network a good part of the window is over when
// the answer comes.
func TestAGrantCountsFromItsSending(t *testing.T) {
	for took, first := range map[time.Duration]time.Duration{0: 3 * time.Second, 2 * time.Second: 3 * time.Second, 4 * time.Second: 4 * time.Second} {
		c := &client{
			grant:  func(int) error { time.Sleep(took); return nil },
			answer: func(ctx context.Context, _ int) (int64, error) { return after(ctx, 0) },
		}
		test(t, c, func(t *testing.T, _ *Lease) {
			c.pause(first - took + ms)
			require.NotEmpty(t, c.attempts, "the grant took %s", took)
			assert.Equal(t, first, c.attempts[0].Truncate(ms), "the grant took %s", took)
		})
	}
}

func TestAnUnansweredRenewalIsFollowedByOthersAndCountsWhenItIsAnswered(t *testing.T) {
	c := &client{answer: func(ctx context.Context, n int) (int64, error) {
		if n == 1 {
			return after(ctx, 3500*ms)
		}
		return after(ctx, ms)
	}}
	test(t, c, func(t *testing.T, _ *Lease) {
		c.pause(6900 * ms)
		assert.Equal(t, []time.Duration{3000 * ms, 4000 * ms}, c.attempts)
		assert.Equal(t, []time.Duration{0, 4000 * ms, 3000 * ms}, c.renewed)
		c.pause(200 * ms)
		assert.Equal(t, 7000*ms, c.attempts[2], "the late answer has brought it no nearer")
	})
}

func TestRenewalsWithoutAnswersAreFew(t *testing.T) {
	c := &client{answer: func(ctx context.Context, _ int) (int64, error) { return after(ctx, time.Hour) }}
	test(t, c, func(t *testing.T, _ *Lease) {
		c.pause(11900 * ms)
		assert.Len(t, c.attempts, maxAttempts)
		c.pause(200 * ms)
		assert.Len(t, c.attempts, maxAttempts+1, "the first was given up when the window had passed")
		assert.Empty(t, c.gone, "no answer proves nothing")
	})
}

func TestARefusedRenewalIsSentAgainSoon(t *testing.T) {
	c := &client{answer: func(ctx context.Context, n int) (int64, error) {
		if n < 7 {
			return 0, status.Error(codes.PermissionDenied, "no")
		}
		return after(ctx, 0)
	}}
	test(t, c, func(t *testing.T, _ *Lease) {
		c.pause(8 * time.Second)
		assert.Equal(t, []time.Duration{3000 * ms, 3050 * ms, 3150 * ms, 3350 * ms, 3750 * ms, 4550 * ms, 5550 * ms}, c.attempts)
		assert.Equal(t, 1, strings.Count(c.log.String(), "not renewed"))
		assert.Empty(t, c.gone)
	})
}

func TestRenewSendsOneNow(t *testing.T) {
	c := &client{answer: func(ctx context.Context, _ int) (int64, error) { return after(ctx, 0) }}
	test(t, c, func(t *testing.T, l *Lease) {
		c.pause(time.Second)
		l.Renew()
		c.pause(0)
		l.Renew()
		c.pause(time.Second)
		assert.Equal(t, []time.Duration{1000 * ms, 1050 * ms}, c.attempts)
	})
}

// A snapshot was restored under the session, and its lease is in there.
func TestALeaseThatIsOnlyNotTrustedAnyMoreIsRevoked(t *testing.T) {
	c := &client{answer: func(ctx context.Context, _ int) (int64, error) { return after(ctx, 0) }}
	test(t, c, func(t *testing.T, l *Lease) {
		c.mu.Unlock() // Lost reports
		l.Lost(errors.New("a snapshot was restored"))
		require.NoError(t, l.Revoke(t.Context()))
		c.mu.Lock()
		require.Len(t, c.gone, 1)
		require.ErrorIs(t, c.gone[0], driver.ErrSessionOver)
		assert.Equal(t, 1, c.revoked)
	})
}

func TestALeaseIsGrantedInWholeSecondsFromTheLastAttempt(t *testing.T) {
	c := &client{answer: func(ctx context.Context, _ int) (int64, error) { return after(ctx, 0) }, grant: func(n int) error {
		time.Sleep(100 * ms)
		if n == 1 {
			return status.Error(codes.Unavailable, "leader changed")
		}
		return nil
	}}
	bubble(t, c, func(t *testing.T) {
		cfg := c.config()
		cfg.TTL = 2500 * ms
		l, err := Grant(t.Context(), c.send, cfg, []byte("key"))
		require.NoError(t, err)
		assert.EqualValues(t, 3, c.grants[1].TTL)
		assert.Equal(t, []time.Duration{3 * time.Second, 2 * time.Second}, []time.Duration{l.TTL, l.Window})
		require.Len(t, c.renewed, 1)
		assert.Greater(t, c.renewed[0], 100*ms, "the first one was not answered")
		c.send.End(driver.ErrClosed)
		l.wg.Wait()
	})
}

func TestALeaseThatIsNotGrantedNamesTheServers(t *testing.T) {
	c := &client{grant: func(int) error { return status.Error(codes.Unavailable, "no leader") }}
	bubble(t, c, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Grant(ctx, c.send, c.config(), nil)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		assert.ErrorContains(t, err, "127.0.0.1:1")
		assert.Equal(t, time.Second, time.Since(c.began))
		c.send.End(err)
	})
}

func TestAnObserverHasNoLease(t *testing.T) {
	c := &client{}
	bubble(t, c, func(t *testing.T) {
		l, err := Grant(t.Context(), c.send, driver.Config{Observer: true}, nil)
		require.NoError(t, err)
		l.Renew()
		time.Sleep(time.Hour)
		assert.Empty(t, l.String())
		c.send.End(driver.ErrClosed)
		require.NoError(t, l.Revoke(t.Context()))
		assert.Empty(t, c.grants)
		assert.Zero(t, c.revoked)
	})
}

func TestALeaseIsNamedAsEtcdctlNamesIt(t *testing.T) {
	assert.Equal(t, "694d77aa9e8f4f01", Name(0x694d77aa9e8f4f01))
	assert.Equal(t, "ffffffffffffffff", Name(-1))
}

// TestALeaseIsTakenOverWhenARenewalOfItHasCounted: until then a leader that was replaced may have
// shown what it believes.
func TestALeaseIsTakenOverWhenARenewalOfItHasCounted(t *testing.T) {
	c := &client{granted: 10, answer: func(ctx context.Context, _ int) (int64, error) { return after(ctx, ms) }}
	c.terms = func() (uint64, uint64) {
		if time.Since(c.began) < 3*time.Second {
			return 7, 8
		}
		return 8, 8
	}
	bubble(t, c, func(t *testing.T) {
		l, err := Adopt(t.Context(), c.send, c.config(), []byte("key"), 0xabc)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(c.began), 3*time.Second)
		assert.Equal(t, 10*time.Second, l.TTL)
		assert.Equal(t, 9*time.Second, l.Window)
		c.mu.Lock()
		c.pause(l.Window)
		assert.Greater(t, len(c.renewed), 2, "it is renewed from then on")
		assert.Empty(t, c.grants)
		c.mu.Unlock()
		c.send.End(driver.ErrClosed)
		l.wg.Wait()
	})
}

func TestALeaseThatCannotBeTakenOverIsRefused(t *testing.T) {
	for id, granted := range map[int64]int64{0xdef: 10, 0xabc: 1} {
		c := &client{granted: granted}
		bubble(t, c, func(t *testing.T) {
			_, err := Adopt(t.Context(), c.send, c.config(), []byte("key"), id)
			require.ErrorIs(t, err, driver.ErrRefused)
			require.ErrorContains(t, err, Name(id))
			assert.Empty(t, c.attempts)
		})
	}
}

// TestTakingALeaseOverEndsWithItsContext, and so it does if the lease is found to be gone.
func TestTakingALeaseOverEndsWithItsContext(t *testing.T) {
	c := &client{granted: 10, answer: func(ctx context.Context, _ int) (int64, error) { return after(ctx, time.Hour) }}
	bubble(t, c, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := Adopt(ctx, c.send, c.config(), []byte("key"), 0xabc)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 5*time.Second, time.Since(c.began))
		c.send.End(driver.ErrClosed)
	})
	c = &client{granted: 10, answer: func(context.Context, int) (int64, error) { return 0, nil }}
	bubble(t, c, func(t *testing.T) {
		_, err := Adopt(t.Context(), c.send, c.config(), []byte("key"), 0xabc)
		require.ErrorIs(t, err, driver.ErrSessionOver)
		c.send.End(driver.ErrClosed)
	})
}

package membackend_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

func TestSessionExpiresTTLAfterTheLastRenewalReceived(t *testing.T) {
	for _, d := range []fault.Direction{fault.Requests, fault.Both} {
		synctest.Test(t, func(t *testing.T) {
			st, c, s, r := serve(t, memory.Options{})
			join(t, s, "jobs")
			time.Sleep(time.Minute)
			all := r.sent.get() // the network has no delay
			c.Cut(d)
			rest := ttl - c.Backend().Info().Clock.Now().Sub(all[len(all)-1])
			time.Sleep(rest - time.Nanosecond)
			synctest.Wait()
			require.Len(t, entries(st, "jobs"), 1)
			time.Sleep(time.Nanosecond)
			synctest.Wait()

			assert.Empty(t, entries(st, "jobs"))
			assert.Empty(t, st.Sessions())
			assert.Empty(t, r.gone.get(), "the client cannot know")
			c.Heal()
			time.Sleep(ttl)
			assert.Len(t, r.gone.get(), 1)
		})
	}
}

func TestCutRepliesKeepTheSessionAndRenewNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, r := serve(t, memory.Options{})
		join(t, s, "jobs")
		c.Cut(fault.Replies)
		renewals := len(r.sent.get())
		time.Sleep(3 * ttl)

		assert.Len(t, r.sent.get(), renewals)
		assert.Len(t, entries(st, "jobs"), 1)
	})
}

func TestStalledProcessSendsNothingAndLearnsOfItsEndOnResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, r := serve(t, memory.Options{})
		own := watch(t, s, join(t, s, "jobs").Target())
		c.Stall()
		before := c.Sent(fault.Renew)
		time.Sleep(2 * ttl)
		require.Len(t, own.get(), 1)
		require.Empty(t, entries(st, "jobs"))
		require.Equal(t, before, c.Sent(fault.Renew))
		require.Empty(t, r.gone.get())
		c.Resume()

		assert.Len(t, r.gone.get(), 1)
		_, err := s.Join(t.Context(), driver.JoinRequest{Queue: "jobs"})
		require.ErrorIs(t, err, driver.ErrSessionOver)
	})
}

func TestStalledProcessRunsItsTimersLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := membackend.New().NewClient()
		clock := c.Backend().Info().Clock
		var ran, stopped atomic.Int32
		clock.AfterFunc(time.Second, func() { ran.Add(1) })
		stop := clock.AfterFunc(time.Second, func() { stopped.Add(1) })
		c.Stall()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Zero(t, ran.Load(), "stalled")
		assert.True(t, stop(), "it was kept from being called")
		assert.False(t, stop())
		c.Resume()
		synctest.Wait()

		assert.EqualValues(t, 1, ran.Load())
		assert.Zero(t, stopped.Load())
	})
}

func TestCallsOfAStalledProcessReturnWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		c.Stall()
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := s.Join(ctx, driver.JoinRequest{Queue: "jobs"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		var p *driver.PendingError
		require.NotErrorAs(t, err, &p, "it was never sent, and that is known")
		c.Resume()
		time.Sleep(time.Second)
		assert.Empty(t, entries(st, "jobs"))
	})
}

func TestRequestWithoutAnswerIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, s, _ := serve(t, memory.Options{})
		begin := time.Now()
		c.Inject(fault.Join, fault.LostRequest)
		c.Inject(fault.Join, fault.LostReply)
		join(t, s, "jobs")
		assert.Equal(t, 3, c.Sent(fault.Join))
		assert.Equal(t, 1600*time.Millisecond, time.Since(begin))

		c.Inject(fault.Read, fault.BrokenRequest)
		c.Inject(fault.Read, fault.BrokenReply)
		begin = time.Now()
		_, err := s.Read(t.Context(), driver.ReadRequest{Queue: "jobs", Upto: 100})
		require.NoError(t, err)
		assert.Equal(t, 3, c.Sent(fault.Read))
		assert.Equal(t, 10*time.Millisecond, time.Since(begin), "a broken connection is noticed at once")
	})
}

func TestDelaysAddUpPerRequestAndLetNoEventOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		c.DelayRequests(30 * time.Millisecond)
		c.Delay(20 * time.Millisecond)
		begin := time.Now()
		e := join(t, s, "jobs")
		assert.Equal(t, 50*time.Millisecond, time.Since(begin))

		events := watch(t, s, e.Target())
		time.Sleep(49 * time.Millisecond)
		assert.Empty(t, events.get())
		time.Sleep(time.Millisecond)
		assert.Len(t, events.get(), 1)
		require.True(t, inner().Overwrite(st, "jobs", e.Key, nil))
		c.Heal()
		st.Delete("jobs", e.Key)
		time.Sleep(20 * time.Millisecond)
		assert.Equal(t, []driver.Event{{Kind: driver.Armed}, {Kind: driver.Changed}, {Kind: driver.Gone}}, events.get())
	})
}

func TestCutLosesWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		e := join(t, s, "jobs")
		events := watch(t, s, e.Target())
		cut := func(d fault.Direction, at time.Duration) (sent int) {
			c.DelayRequests(10 * time.Millisecond)
			c.Delay(10 * time.Millisecond)
			before := c.Sent(fault.Names)
			time.AfterFunc(at, func() { c.Cut(d) })
			time.AfterFunc(30*time.Millisecond, c.Heal)
			_, err := s.Read(t.Context(), driver.ReadRequest{Queue: "jobs"})
			require.NoError(t, err)
			return c.Sent(fault.Names) - before
		}
		assert.Equal(t, 2, cut(fault.Requests, 5*time.Millisecond), "the request was under way")
		time.AfterFunc(12*time.Millisecond, func() { st.Delete("jobs", e.Key) })
		assert.Equal(t, 2, cut(fault.Replies, 15*time.Millisecond), "the answer was, and the event")
		assert.Equal(t, []driver.Event{armed, lost, gone}, events.get())
	})
}

func TestRequestsOfShortSessionsAreSentAgainSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := membackend.New().NewClient()
		s, err := c.Backend().Open(t.Context(), driver.Config{
			TTL:     time.Second,
			Margin:  func(time.Duration) time.Duration { return 200 * time.Millisecond },
			Renewed: func(driver.Instant, time.Duration, time.Duration) {},
		})
		require.NoError(t, err)
		c.Inject(fault.Join, fault.LostRequest)
		begin := time.Now()
		join(t, s, "jobs")
		assert.Equal(t, 200*time.Millisecond, time.Since(begin))
		require.NoError(t, s.Close(t.Context()))
	})
}

func TestHookHitsTheVeryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		var ops []fault.Op
		c.OnSend(func(op fault.Op) {
			ops = append(ops, op)
			if op == fault.Leave {
				st.Expire(s.ID())
			}
		})
		e := join(t, s, "jobs")
		left, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: e.Ref})
		c.OnRequest(nil)

		require.NoError(t, err)
		assert.Equal(t, []driver.Left{driver.WasGone}, left)
		assert.Equal(t, []fault.Op{fault.Join, fault.Leave}, ops)
	})
}

// late makes a call whose only request arrives with Deliver, when the call has returned.
func late(t *testing.T, c *membackend.Client, op fault.Op, call func(ctx context.Context) error) error {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	c.Inject(op, fault.LateRequest)
	err := call(ctx)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	return err
}

func TestLateJoinIsThereUntilItIsSettled(t *testing.T) {
	for _, delivered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			st, c, s, _ := serve(t, memory.Options{})
			err := late(t, c, fault.Join, func(ctx context.Context) error {
				_, err := s.Join(ctx, driver.JoinRequest{Queue: "jobs"})
				return err
			})
			var p *driver.PendingError
			require.ErrorAs(t, err, &p)
			c.Heal()
			require.Empty(t, entries(st, "jobs"), "Heal brings nothing back")
			if delivered {
				c.Deliver()
				require.Len(t, entries(st, "jobs"), 1)
			}
			s.Abandon()

			require.NoError(t, p.Settle(t.Context()))
			c.Deliver()
			assert.Empty(t, entries(st, "jobs"))
			assert.Equal(t, 1, c.Sent(fault.Settle))
		})
	}
}

func TestCallThatASessionsEndInterruptsIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, s, _ := serve(t, memory.Options{})
		c.Cut(fault.Replies)
		time.AfterFunc(time.Millisecond, s.Abandon)
		_, err := s.Join(t.Context(), driver.JoinRequest{Queue: "jobs"})
		var p *driver.PendingError
		require.ErrorAs(t, err, &p)
		require.ErrorIs(t, err, driver.ErrSessionOver)
		c.Heal()
		require.NoError(t, p.Settle(t.Context()))
		_, err = s.Read(t.Context(), driver.ReadRequest{Queue: "jobs"})
		assert.ErrorIs(t, err, driver.ErrSessionOver)
	})
}

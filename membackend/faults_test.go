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
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

func TestSessionExpiresTTLAfterTheLastRenewalReceived(t *testing.T) {
	for _, d := range []fault.Direction{fault.Requests, fault.Both} {
		synctest.Test(t, func(t *testing.T) {
			st, c, s, r := serve(t, memory.Options{})
			join(t, s, "jobs")
			time.Sleep(time.Minute)
			synctest.Wait()
			last := r.proofs()[len(r.proofs())-1] // the network has no delay
			c.Cut(d)
			rest := ttl - c.Backend().Clock().Now().Sub(last)
			time.Sleep(rest - time.Nanosecond)
			synctest.Wait()
			require.Len(t, memtest.Entries(st, "jobs"), 1)
			time.Sleep(time.Nanosecond)
			synctest.Wait()

			assert.Empty(t, memtest.Entries(st, "jobs"))
			assert.Empty(t, st.Sessions())
			assert.Zero(t, r.gone(), "nobody can have told the client")
			c.Heal()
			time.Sleep(ttl)
			synctest.Wait()
			assert.Equal(t, 1, r.gone())
		})
	}
}

func TestRepliesCutKeepTheSessionAndProveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, r := serve(t, memory.Options{})
		join(t, s, "jobs")
		c.Cut(fault.Replies)
		proofs := len(r.proofs())
		time.Sleep(3 * ttl)
		synctest.Wait()

		assert.Len(t, memtest.Entries(st, "jobs"), 1)
		assert.Len(t, r.proofs(), proofs)
	})
}

func TestStalledProcessSendsNothingAndHearsOfItsEndOnResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, r := serve(t, memory.Options{})
		join(t, s, "jobs")
		c.Stall()
		before := c.Sent(fault.Renew)
		time.Sleep(2 * ttl)
		synctest.Wait()
		require.Empty(t, memtest.Entries(st, "jobs"))
		require.Equal(t, before, c.Sent(fault.Renew))
		require.Zero(t, r.gone())
		c.Resume()
		synctest.Wait()

		assert.Equal(t, 1, r.gone())
		_, err := s.Join(t.Context(), driver.JoinRequest{Line: "jobs"})
		require.ErrorIs(t, err, driver.ErrSessionOver)
	})
}

func TestStalledProcessRunsItsTimersLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := membackend.New().NewClient()
		clock := c.Backend().Clock()
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
		_, err := s.Join(ctx, driver.JoinRequest{Line: "jobs"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var p *driver.PendingError
		require.NotErrorAs(t, err, &p, "it was never sent, and that is known")
		c.Resume()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, memtest.Entries(st, "jobs"))
	})
}

// A request is sent again after a second at most, or a quarter of the session's
// window if that is less.
func TestLostRequestIsSentAgainAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, s, _ := serve(t, memory.Options{})
		begin := time.Now()
		c.Inject(fault.Join, fault.LostRequest)
		c.Inject(fault.Join, fault.LostReply)
		join(t, s, "jobs")
		assert.Equal(t, 3, c.Sent(fault.Join))
		assert.Equal(t, 1600*time.Millisecond, time.Since(begin))

		c.Inject(fault.Look, fault.BrokenRequest)
		c.Inject(fault.Look, fault.BrokenReply)
		begin = time.Now()
		_, err := s.Look(t.Context(), driver.LookRequest{Line: "jobs", Upto: 100})
		require.NoError(t, err)
		assert.Equal(t, 3, c.Sent(fault.Look))
		assert.Equal(t, 10*time.Millisecond, time.Since(begin), "a broken connection is noticed at once")
	})
}

func TestDelaysAddUpPerRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		c.DelayRequests(30 * time.Millisecond)
		c.Delay(20 * time.Millisecond)
		begin := time.Now()
		e := join(t, s, "jobs")
		assert.Equal(t, 50*time.Millisecond, time.Since(begin))

		kinds := record(t, s, driver.WatchRequest{Ref: e.Ref})
		time.Sleep(49 * time.Millisecond)
		synctest.Wait()
		assert.Empty(t, kinds())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.Len(t, kinds(), 1)
		st.Delete("jobs", e.Key)
		c.Heal() // what follows does not overtake
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []driver.EventKind{driver.Armed, driver.Gone}, kinds())
	})
}

func TestHookStrikesTheVeryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		var ops []fault.Op
		c.OnSend(func(op fault.Op) {
			if op == fault.Renew {
				return
			}
			ops = append(ops, op)
			if op == fault.Leave {
				st.Expire(s.ID())
			}
		})
		e := join(t, s, "jobs")
		_, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: e.Ref})
		c.OnRequest(nil)

		require.ErrorIs(t, err, driver.ErrGone)
		assert.Equal(t, []fault.Op{fault.Join, fault.Leave}, ops)
	})
}

func TestLateRequestArrivesWhenTheCallerHasLongGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		c.Inject(fault.Join, fault.LateRequest)
		_, err := s.Join(ctx, driver.JoinRequest{Line: "jobs"})
		var p *driver.PendingError
		require.ErrorAs(t, err, &p)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.Empty(t, memtest.Entries(st, "jobs"))
		c.Heal()
		require.Empty(t, memtest.Entries(st, "jobs"), "Heal brings nothing back")
		c.Deliver()
		require.Len(t, memtest.Entries(st, "jobs"), 1, "nobody has settled it")

		require.NoError(t, p.Settle(t.Context()))
		assert.Empty(t, memtest.Entries(st, "jobs"))
		assert.Equal(t, 1, c.Sent(fault.Settle))
	})
}

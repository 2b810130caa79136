package redisbackend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/redisbackend/internal/fakeredis"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

var three = &Options{Nodes: 3}

// renewal is the answer to a renewal that shows no session.
var renewal = []any{"OK", []any{}, []any{}}

// The server applied a renewal after it was sent, and others count from then on.
func TestARenewalCountsFromItsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.renewed = func(int) any {
			<-time.After(time.Second)
			return renewal
		}
		began := f.clock.Now()
		o := f.opens(t, ttl)
		opened := f.clock.Now()
		passes(period(ttl) + time.Second + time.Millisecond)

		proofs := o.proved()
		require.Len(t, proofs, 2)
		assert.Equal(t, began, proofs[0], "not a second later")
		assert.Equal(t, period(ttl), proofs[1].Sub(opened), "not a second later")
	})
}

// An older master answers too; only one that a majority follows may keep a lock.
func TestARenewalWithoutAMajorityCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, three)
		f.acks = func(n int) any {
			if n > 0 && n < 4 {
				return 0
			}
			return 1
		}
		o := f.opens(t, ttl)
		passes(period(ttl) + time.Millisecond)
		assert.Len(t, o.proved(), 1, "only the opening")
		assert.Empty(t, o.losses(), "it may still be there")
		assert.Contains(t, f.logged(), "no majority")
		passes(time.Second)
		assert.Len(t, o.proved(), 2, "it was sent again soon")
		assert.Equal(t, 1, strings.Count(f.logged(), "was not renewed"))
		assert.Equal(t, 1, strings.Count(f.logged(), "is renewed again"))
	})
}

func TestAnOpeningWithoutAMajorityIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, three)
		f.renewed = func(int) any {
			<-time.After(100 * time.Millisecond)
			return renewal
		}
		f.acks = func(n int) any {
			if n < 2 {
				return 0
			}
			return 1
		}
		o := f.opens(t, ttl)
		all := f.requests("renew")
		require.Len(t, all, 3)
		require.Len(t, o.proved(), 1)
		assert.Less(t, all[1].at, o.proved()[0], "it counts from the last one")

		f.acks = func(int) any { return 0 }
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		_, err := f.tryOpen(ctx, t, ttl)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorIs(t, err, errUnproven)
	})
}

// The server counts what was written on the same connection, so nothing else may be. And a renewal waits
// behind nothing.
func TestRenewalsHaveAConnectionOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, options := range []*Options{nil, three} {
			f := newFake(t, options)
			o := f.opens(t, ttl)
			_, err := o.Read(t.Context(), driver.ReadRequest{Queue: "q"})
			require.NoError(t, err)
			passes(3 * period(ttl))
			var own []int
			for _, name := range []string{"renew", "WAIT"} {
				for _, s := range f.requests(name) {
					own = append(own, s.conn)
				}
			}
			assert.Len(t, slices.Compact(own), 1)
			assert.NotEqual(t, own[0], f.requests("read")[0].conn)
			if options != nil {
				assert.Len(t, f.requests("WAIT"), len(f.requests("renew")), "one behind each")
			}
		}
	})
}

func TestOneServerAcknowledgesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		o := f.opens(t, ttl)
		passes(period(ttl) + time.Millisecond)
		assert.Len(t, o.proved(), 2)
		assert.Empty(t, f.requests("WAIT"))
	})
}

// An attempt that is not answered must not use up the time to the deadline.
func TestARenewalThatIsNotAnsweredIsSentAgainElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.renewed = func(n int) any {
			if n == 1 {
				return fakeredis.Silent{}
			}
			return renewal
		}
		o := f.opens(t, ttl)
		passes(period(ttl) + ttl/4 + time.Second)
		assert.Len(t, o.proved(), 2)
		assert.Contains(t, f.server.Logins(), "b:2")
		assert.Empty(t, o.losses())
	})
}

func TestASessionThatIsNotThereIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for word, why := range map[string]error{script.Over: errNoSession, script.Life: errLife} {
			f := newFake(t, nil)
			f.renewed = func(n int) any {
				if n > 0 {
					return []any{word}
				}
				return renewal
			}
			o := f.opens(t, ttl)
			passes(ttl)
			require.Len(t, o.losses(), 1, word)
			require.ErrorIs(t, o.losses()[0], why)
			require.ErrorIs(t, o.losses()[0], driver.ErrSessionOver)
			assert.Len(t, f.requests("renew"), 2, "it is not renewed any more")
			_, err := o.Read(t.Context(), driver.ReadRequest{Queue: "q"})
			require.ErrorIs(t, err, driver.ErrSessionOver)
			assert.Empty(t, f.requests("read"), "nothing is sent")
			assert.False(t, f.owns(o.id))
		}
	})
}

// Any answer may be the first that shows it.
func TestACallThatShowsTheEndOfASessionEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, word := range []string{script.Over, script.Life} {
			f := newFake(t, nil)
			f.answers = func(string, []string) any { return []any{word} }
			wanted := false
			f.renewed = func(int) any {
				if wanted && word == script.Life {
					return []any{word}
				}
				return renewal
			}
			for name, call := range map[string]func(o *owner) error{
				"join": func(o *owner) error {
					_, err := o.Join(t.Context(), driver.JoinRequest{Queue: "q"})
					return err
				},
				"leave": func(o *owner) error {
					_, err := o.Leave(t.Context(), driver.LeaveRequest{})
					return err
				},
				"update": func(o *owner) error {
					_, err := o.Update(t.Context(), driver.UpdateRequest{Queue: "q"})
					return err
				},
				"read": func(o *owner) error {
					_, err := o.Read(t.Context(), driver.ReadRequest{Queue: "q"})
					return err
				},
				"names": func(o *owner) error {
					_, err := o.Names(t.Context(), "")
					return err
				},
			} {
				wanted = false
				o := f.opens(t, ttl)
				wanted = true
				require.ErrorIs(t, call(o), driver.ErrSessionOver, name)
				assert.Len(t, o.losses(), 1, name)
			}
		}
	})
}

// Where two act as the master, a call may have met the wrong one. Only a renewal shows that the session is over.
func TestACallInAnotherLifeIsMadeElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.server.Answer = func(c *fakeredis.Conn, command []string) any {
			if names()[command[1]] == "read" && c.Addr == "a:1" {
				return []any{script.Life}
			}
			if names()[command[1]] == "read" {
				return []any{"OK", 0, 1, []any{}, []any{}}
			}
			return f.answer(c, command)
		}
		o := f.opens(t, ttl)
		renews := len(f.requests("renew"))
		_, err := o.Read(t.Context(), driver.ReadRequest{Queue: "q"})
		require.NoError(t, err)
		synctest.Wait()
		assert.Empty(t, o.losses())
		assert.Greater(t, len(f.requests("renew")), renews, "a renewal is wanted at once")
	})
}

// A master without a majority may be one that was replaced.
func TestARenewalWithoutAMajorityIsSentElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, three)
		f.acks = func(n int) any {
			if n == 1 {
				return 0
			}
			return 1
		}
		f.opens(t, ttl)
		passes(period(ttl) + time.Second)
		all := f.requests("renew")
		require.Len(t, all, 3)
		assert.Equal(t, all[0].conn, all[1].conn)
		assert.NotEqual(t, all[1].conn, all[2].conn)
	})
}

// A server that cannot write for a while is no loss.
func TestRenewalsOutliveErrorsOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.renewed = func(n int) any {
			all := []any{
				renewal, fakeredis.Error("OOM x"), fakeredis.Error("READONLY x"), fakeredis.Error("NOPERM x"), fakeredis.Error("ERR x"),
				fakeredis.Break{},
				[]any{script.Replica},
				fakeredis.Error("MOVED 7 b:2"),
			}
			return append(all, renewal)[min(n, len(all))]
		}
		o := f.opens(t, ttl)
		passes(2 * ttl)
		assert.Empty(t, o.losses())
		assert.Greater(t, len(o.proved()), 1)
	})
}

// A renewal is also the look at the sessions of those that a client waits for.
func TestRenewalsComeMoreOftenWhileAClientWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		o := f.opens(t, ttl)
		passes(5*period(ttl) + time.Millisecond)
		assert.Len(t, f.requests("renew"), 1+5)
		cancel := o.Watch(driver.Target{Kind: driver.OfQueue, Queue: "q"}, func(driver.Event) {})
		passes(10*lookTime + time.Millisecond)
		assert.Len(t, f.requests("renew"), 1+5+10)
		cancel()
		passes(lookTime + 5*period(ttl))
		assert.Len(t, f.requests("renew"), 1+5+10+6)
	})
}

func TestARenewalThatIsWantedComesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		o := f.opens(t, ttl)
		passes(time.Millisecond)
		o.Renew()
		o.Renew()
		synctest.Wait()
		assert.LessOrEqual(t, len(f.requests("renew")), 3)
		assert.GreaterOrEqual(t, len(o.proved()), 2)
	})
}

func TestWhatARenewalShowsIsEndedAfterItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		o, other := f.opens(t, ttl), f.opens(t, ttl)
		f.change(func() { f.sessions = []any{o.id, "5", other.id, "5", "00aa-3000", "7"} })
		passes(period(ttl) + 3*time.Second - time.Millisecond)
		assert.Empty(t, f.ends())
		passes(2 * period(ttl))
		require.NotEmpty(t, f.ends())
		for _, e := range f.ends() {
			assert.Equal(t, "00aa-3000 7", e, "not an own one, also of another session of this process")
		}

		other.Abandon()
		passes(2 * ttl)
		assert.Contains(t, f.ends(), other.id+" 5", "an abandoned one is like those of others")
		assert.NotContains(t, f.ends(), o.id+" 5")
	})
}

func TestCloseEndsASessionOfAnyVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		o := f.opens(t, ttl)
		require.NoError(t, o.Close(t.Context()))
		assert.Equal(t, []string{o.id + " "}, f.ends())
		assert.Equal(t, life, f.requests("finish")[0].args[0], "in its own life only")
		renews := len(f.requests("renew"))
		passes(ttl)
		assert.Len(t, f.requests("renew"), renews)
		assert.Empty(t, o.losses())
		_, err := o.Read(t.Context(), driver.ReadRequest{Queue: "q"})
		require.ErrorIs(t, err, driver.ErrSessionOver)
	})
}

func TestAnObserverWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		o := f.opens(t, 0)
		_, err := o.Join(t.Context(), driver.JoinRequest{Queue: "q"})
		require.ErrorIs(t, err, driver.ErrRefused)
		_, err = o.Update(t.Context(), driver.UpdateRequest{Queue: "q", Ops: []driver.Op{{Record: "r", Bound: true}}})
		require.ErrorIs(t, err, driver.ErrRefused)
		passes(time.Minute)
		assert.Empty(t, f.requests("renew"))
		assert.Empty(t, f.requests("join"))
		for _, s := range f.requests("examine") {
			assert.Equal(t, "look", s.args[0])
		}
	})
}

// Each write names the calls that were given up, until one of them was answered.
func TestAGivenUpCallIsToldWithTheNextWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		var silent atomic.Bool
		silent.Store(true)
		f.answers = func(name string, _ []string) any {
			if name == "update" && silent.Load() {
				return fakeredis.Silent{}
			}
			if name == "leave" {
				return []any{"OK", []any{1}}
			}
			return []any{"OK", []any{}}
		}
		o := f.opens(t, ttl)
		ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := o.Update(ctx, driver.UpdateRequest{Queue: "q"})
		stop()
		require.ErrorIs(t, err, driver.ErrUnavailable)
		silent.Store(false)
		head := func(name string) []string { // of the newest: slot, number, and what was given up
			all := f.requests(name)
			args := all[len(all)-1].args
			require.Equal(t, []string{life, o.id}, args[:2])
			var n int
			_, err := fmt.Sscan(args[4], &n)
			require.NoError(t, err)
			return args[2 : 5+2*n]
		}
		require.Equal(t, []string{"0", "1", "0"}, head("update"))
		_, err = o.Leave(t.Context(), driver.LeaveRequest{Ref: driver.Ref{Queue: "q"}})
		require.NoError(t, err)
		assert.Equal(t, []string{"1", "1", "1", "0", "1"}, head("leave"))
		_, err = o.Update(t.Context(), driver.UpdateRequest{Queue: "q"})
		require.NoError(t, err)
		assert.Equal(t, "0", head("update")[2], "the server knows it now")
		for range 2 {
			_, err = o.Update(t.Context(), driver.UpdateRequest{Queue: "q"})
			require.NoError(t, err)
		}
		assert.Len(t, o.slots.numbers, 2, "the slot is used again")
	})
}

func TestAJoinThatWasNotAnsweredIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.answers = func(name string, _ []string) any {
			if name == "join" {
				return fakeredis.Silent{}
			}
			return []any{"OK"}
		}
		o := f.opens(t, ttl)
		ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer stop()
		_, err := o.Join(ctx, driver.JoinRequest{Queue: "q", Ops: []driver.Op{{Record: "a"}, {Record: "b", If: driver.Cond{Kind: driver.IfEqual}}}})
		var pending *driver.PendingError
		require.ErrorAs(t, err, &pending)
		o.Abandon() // also what is over is settled
		require.NoError(t, pending.Settle(t.Context()))
		require.NoError(t, pending.Settle(t.Context()))
		assert.Equal(t, []string{life, o.id, "0", "1", "1", "q", "1", "a"}, f.requests("settle")[0].args)
		assert.Equal(t, turn{0, 2}, o.slots.begin())
		assert.Equal(t, turn{1, 1}, o.slots.begin(), "the slot is free once")
	})
}

func TestASettleInAnotherLifeShowsThatTheSessionIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.answers = func(name string, _ []string) any {
			if name == "join" {
				return fakeredis.Silent{}
			}
			return []any{script.Life}
		}
		o := f.opens(t, ttl)
		ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer stop()
		_, err := o.Join(ctx, driver.JoinRequest{Queue: "q"})
		var pending *driver.PendingError
		require.ErrorAs(t, err, &pending)
		o.Abandon()
		require.ErrorIs(t, pending.Settle(t.Context()), driver.ErrSessionOver)
	})
}

func TestATTLAboveTheGreatestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		_, err := f.tryOpen(t.Context(), t, f.opts.MaxTTL+1)
		require.ErrorIs(t, err, driver.ErrRefused)
		assert.Empty(t, f.seen)
	})
}

// quarantined makes the root one of another life.
func (f *fake) quarantined() (claims *[]string, blessed *bool) {
	claims, blessed = new([]string), new(bool)
	sum := 0
	f.examined = func(args []string) []any {
		e := f.whole()
		wrote := 0
		if len(*claims) > 0 && !*blessed {
			e[5] = (*claims)[len(*claims)-1]
		}
		switch {
		case *blessed:
			return e
		case args[0] == "claim" && args[2] == e[5]:
			if args[3] != e[5] {
				sum = 0
			}
			*claims = append(*claims, args[3])
			e[5], wrote = args[3], 1
		case args[0] == "count" && args[2] == e[5] && args[3] == fmt.Sprint(sum):
			var more int
			_, _ = fmt.Sscan(args[4], &more)
			sum, wrote = sum+more, 1
		}
		e[2], e[4], e[6] = wrote, "feed", fmt.Sprint(sum)
		return e
	}
	f.answers = func(name string, args []string) any {
		if name == "bless" {
			*blessed = args[0] == life && args[1] == (*claims)[len(*claims)-1]
		}
		return []any{"OK"}
	}
	return claims, blessed
}

// A claim counts from the answer to a write of it that a majority has.
func TestAQuarantineCountsFromAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, three)
		claims, blessed := f.quarantined()
		const until = 7 * time.Second
		began := time.Now()
		f.acks = func(int) any {
			if time.Since(began) < until {
				<-time.After(proofTime)
				return 0
			}
			return 1
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err := f.tryOpen(ctx, t, ttl)
		require.NoError(t, err)
		assert.True(t, *blessed)
		assert.GreaterOrEqual(t, time.Since(began), until+f.opts.MaxTTL)
		assert.Less(t, time.Since(began), until+f.opts.MaxTTL+3*time.Second)
		for _, c := range *claims {
			assert.Equal(t, (*claims)[0], c)
		}
		assert.True(t, strings.HasPrefix((*claims)[0], life+" "))
		assert.True(t, strings.HasSuffix((*claims)[0], "-0"), "a tag of its attempt's own")
		assert.Len(t, f.requests("renew"), 1, "nothing was made before")
		assert.Len(t, f.requests("bless"), 1)
	})
}

// The last number of a root may be lost with its data, and the clock may have been ahead.
func TestWhatAProgramHasSeenGoesToANewLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.renewed = func(int) any { return []any{"OK", []any{}, []any{}, 77} }
		f.answers = func(name string, _ []string) any {
			if name == "join" {
				return []any{"OK", 78, []any{[]any{1, []any{}, []any{}, []any{}}}}
			}
			return []any{"OK"}
		}
		s := f.opens(t, ttl)
		assert.Equal(t, "0", f.requests("renew")[0].args[3])
		_, err := s.Join(t.Context(), driver.JoinRequest{Queue: "q"})
		require.NoError(t, err)
		passes(ttl / 4)

		f.quarantined()
		f.opens(t, ttl)
		for _, r := range f.requests("examine") {
			if r.args[0] != "look" {
				assert.Equal(t, "78", r.args[len(r.args)-1], r.args[0])
			}
		}
		renewals := f.requests("renew")
		assert.Contains(t, renewals[len(renewals)-1].args[3], "78")
	})
}

// Each attempt of a claim has a tag of its own.
func TestAClaimThatIsSentAgainHasAnotherTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		claims, _ := f.quarantined()
		examined := f.examined
		broken := false
		f.server.Answer = func(c *fakeredis.Conn, command []string) any {
			if len(command) > 4 && command[4] == "claim" && !broken {
				broken = true
				return fakeredis.Break{}
			}
			return f.answer(c, command)
		}
		f.examined = examined
		f.opens(t, ttl)
		assert.True(t, strings.HasSuffix((*claims)[0], "-1"), (*claims)[0])
	})
}

func TestAnOpeningThatGivesUpNamesTheTimeThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		_, blessed := f.quarantined()
		ctx, stop := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer stop()
		_, err := f.tryOpen(ctx, t, ttl)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorContains(t, err, fmt.Sprintf("grants nothing for another %s", f.opts.MaxTTL-4*time.Second))
		assert.False(t, *blessed)
	})
}

func TestAnOpeningOnANewRootNamesTheCommandThatMakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.quarantined()
		lost := f.examined
		f.examined = func(args []string) []any {
			e := lost(args)
			e[4] = "" // no program has used the root
			return e
		}
		ctx, stop := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer stop()
		_, err := f.tryOpen(ctx, t, ttl)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorContains(t, err, "it is new or has lost its data")
		require.ErrorContains(t, err, `: give ctx a later deadline, or open again, since that time counts; for a root that was never used, run "fairlock init" first`)
	})
}

func TestAnObserverClaimsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, three)
		claims, _ := f.quarantined()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err := f.tryOpen(ctx, t, 0)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		assert.Empty(t, *claims)
		assert.Empty(t, f.requests("bless"))
	})
}

func TestTheServerThatIsNoMasterIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.server.Answer = func(c *fakeredis.Conn, command []string) any {
			if c.Addr == "a:1" {
				return []any{script.Replica}
			}
			return f.answer(c, command)
		}
		f.opens(t, ttl)
		assert.Equal(t, []string{"a:1", "b:2"}, f.server.Logins()[:2])
	})
}

// In a cluster, notices stay on the nodes that have the root.
func TestAClusterHasShardedChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for mode, sharded := range map[string]bool{"standalone": false, "cluster": true} {
			f := newFake(t, nil)
			f.examined = func([]string) []any {
				e := f.whole()
				e[11] = mode
				return e
			}
			armed := make(chan driver.Event, 1)
			f.answers = func(string, []string) any { return []any{"OK", []any{}, []any{""}} }
			o := f.opens(t, ttl)
			assert.Equal(t, sharded, o.scripts.Kind.Cluster, mode)
			o.Watch(driver.Target{Kind: driver.OfQueue, Queue: "q"}, func(e driver.Event) { armed <- e })
			<-armed
			passes(time.Millisecond)
			publish := map[bool]func(channel, payload string) int{false: f.server.Publish, true: f.server.PublishSharded}
			assert.Zero(t, publish[!sharded]("{fairlock}:c::q", "e"), mode)
			assert.Equal(t, 1, publish[sharded]("{fairlock}:c::q", "e"), mode)
			assert.Equal(t, driver.Changed, (<-armed).Kind, mode)
		}
	})
}

package pgbackend

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/pgbackend/internal/fakepg"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

// passes lets time pass.
func passes(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

const ttl = 10 * time.Second

// The store applied a renewal after it was sent, and others count from then on.
func TestARenewalCountsFromItsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.renewed = func(n int) fakepg.Reply {
			<-time.After(time.Second)
			return fakepg.Rows(n)
		}
		o := f.open(t, ttl)
		before := f.clock.Now()
		passes(period(ttl) + time.Second + time.Millisecond)

		proofs := o.proofs()
		require.Len(t, proofs, 2)
		assert.Equal(t, period(ttl), proofs[1].Sub(before), "not a second later")
	})
}

// A wait for a standby that was cancelled ends with a warning, and with the commit.
func TestARenewalWithAWarningIsNoProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.renewed = func(n int) fakepg.Reply {
			r := fakepg.Rows(n)
			r.Warning = n < 3
			return r
		}
		o := f.open(t, ttl)
		passes(period(ttl) + time.Millisecond)
		assert.Len(t, o.proofs(), 1, "only the opening")
		assert.Zero(t, o.losses(), "it may still be there")
		assert.Contains(t, f.logged(), "not waited for its standbys")
		passes(time.Second)
		assert.Len(t, o.proofs(), 2, "it was sent again soon")
	})
}

func TestAnOpeningWithAWarningIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		began := f.clock.Now()
		f.opened = func(n int) fakepg.Reply {
			r := fakepg.Rows(n + 1)
			r.Warning = n < 2
			<-time.After(time.Second)
			return r
		}
		o := f.open(t, ttl)
		assert.Equal(t, 3, f.opens)
		assert.Equal(t, 2*time.Second, o.proofs()[0].Sub(began), "it counts from the last one")
	})
}

// An attempt that is not answered must not use up the time to the deadline.
func TestARenewalThatIsNotAnsweredIsSentAgainOnAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.renewed = func(n int) fakepg.Reply { return fakepg.Reply{Silent: n == 0, Rows: [][]any{{n}}} }
		o := f.open(t, ttl)
		logins := f.server.Logins()
		passes(period(ttl) + ttl/4 + time.Second)
		assert.Len(t, o.proofs(), 2)
		assert.Equal(t, logins+1, f.server.Logins())
		assert.Zero(t, o.losses())
	})
}

func TestASessionThatIsNotThereIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.renewed = func(int) fakepg.Reply { return fakepg.Reply{Columns: 1, Tag: "UPDATE 0"} }
		o := f.open(t, ttl)
		passes(ttl)
		assert.Equal(t, 1, o.losses())
		require.ErrorIs(t, o.gone[0], driver.ErrSessionOver)
		assert.Len(t, f.renew, 1, "it is not renewed any more")
		_, err := o.Read(t.Context(), driver.ReadRequest{Queue: "q"})
		require.ErrorIs(t, err, driver.ErrSessionOver)
	})
}

// A server that cannot write for a while is no loss.
func TestRenewalsOutliveErrorsOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		codes := []string{"53100", "25006", "53300", "57P03", "XX000"}
		f.renewed = func(n int) fakepg.Reply {
			if n < len(codes) {
				return fakepg.Reply{Code: codes[n]}
			}
			return fakepg.Rows(n)
		}
		o := f.open(t, ttl)
		passes(ttl)
		assert.Zero(t, o.losses())
		assert.Greater(t, len(o.proofs()), 1)
	})
}

// What is given up is closed, and nothing more: a request to cancel can crash a pooler.
func TestNothingIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.renewed = func(n int) fakepg.Reply { return fakepg.Reply{Silent: n == 0, Rows: [][]any{{n}}} }
		o := f.open(t, ttl)
		f.set(func() { f.server.Mute.Store(true) })
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		_, err := o.Read(ctx, driver.ReadRequest{Queue: "q"})
		require.ErrorIs(t, err, driver.ErrUnavailable)
		f.server.Mute.Store(false)
		passes(time.Minute)
		assert.Greater(t, f.server.Logins(), 2)
		assert.Zero(t, f.server.Cancels.Load())
	})
}

func TestCloseEndsTheSessionInTheStoreAndAbandonDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		o := f.open(t, ttl)
		require.NoError(t, o.Close(t.Context()))
		assert.Equal(t, []string{fmt.Sprint(number(t, o.ID()), " 0")}, f.ends())
		o = f.open(t, ttl)
		o.Abandon()
		passes(ttl)
		assert.Len(t, f.ends(), 1)
		assert.False(t, f.owns(o.ID()), "a later session of this process may end it")
	})
}

// The sweep ends sessions that no client waits for: a process that was killed leaves nothing.
func TestTheSweepEndsWhatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		o, other := f.open(t, ttl), f.open(t, ttl)
		own, also := number(t, o.ID()), number(t, other.ID())
		version := 1
		f.set(func() {
			f.sessions = [][]any{{own, 1, 10_000}, {also, 1, 10_000}, {int64(77), 3, 60_000}, {int64(78), version, 10_000}}
		})
		for range 60 {
			passes(5 * time.Second) // half of its TTL
			version++
			f.set(func() { f.sessions[3] = []any{int64(78), version, 10_000} })
		}
		require.NotEmpty(t, f.ends())
		for _, e := range f.ends() {
			assert.Equal(t, "77 3", e, "not its own, and not one that was renewed")
		}
	})
}

// The entry may be there, so it is removed, and the caller does not wait.
func TestAJoinWhoseAnswerCannotBeReadFailsAndIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		answer := fakepg.Rows("text", "text")
		f.joined = &answer
		o := f.open(t, ttl)
		began := time.Now()

		_, err := o.Join(t.Context(), driver.JoinRequest{Queue: "q"})

		require.ErrorIs(t, err, driver.ErrRefused)
		require.ErrorContains(t, err, "cannot be read")
		assert.Equal(t, began, time.Now())
		var pending *driver.PendingError
		require.ErrorAs(t, err, &pending)
		require.NoError(t, pending.Settle(t.Context()))
		assert.Contains(t, f.texts, f.layout.NewTexts(f.life, "secret").Settle)
	})
}

// The reason stays the same for as long as an operator does nothing.
func TestWhyASessionIsNotEndedIsLoggedOnceAMinuteAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := f.open(t, ttl).Session.(*pgSession)
		reports := func(code string) int { return strings.Count(f.logged(), "failure "+code) }
		end := func(code string, n int) {
			f.set(func() { f.refusal = code })
			for range n {
				_ = s.ends.end(t.Context(), observed.Sight{ID: layout.SessionID(77), Version: 3}) // it is logged
				passes(time.Second)
			}
		}
		end("42501", 50)
		assert.Equal(t, 1, reports("42501"))
		assert.Contains(t, f.logged(), layout.SessionID(77))
		end("42501", 20)
		assert.Equal(t, 2, reports("42501"), "a minute has passed")
		end("23503", 5)
		assert.Equal(t, 1, reports("23503"), "another cause")
		end("", 2)
		assert.Equal(t, 1, strings.Count(f.logged(), "are ended again"))

		began := time.Now()
		end("53100", 1)
		assert.Equal(t, endTime+time.Second, time.Since(began), "it is repeated for so long, and the next session has its turn")
		assert.Equal(t, 1, reports("53100"), "the disk is full")
		f.set(func() { f.refusal = "" })
	})
}

// A tool that shows a queue may have no right to end anything.
func TestAnObserverDoesNotReportThatItMayNotEndSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.refusal = "42501"
		s := f.open(t, 0).Session.(*pgSession)

		err := s.ends.end(t.Context(), observed.Sight{ID: layout.SessionID(77), Version: 3})

		require.ErrorIs(t, err, driver.ErrDenied)
		assert.Empty(t, f.logged())
	})
}

// A row in table watcher is removed when no client has renewed it for a minute. What the clock of the
// server shows does not matter.
func TestTheSweepRemovesTheRowsOfQueuesThatNobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.open(t, ttl)
		version := 1
		f.set(func() { f.watchers = [][]any{{"left", int64(7)}, {"watched", int64(version)}} })
		for range 30 {
			passes(20 * time.Second) // as often as clients renew it
			version++
			f.set(func() { f.watchers[1] = []any{"watched", int64(version)} })
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		require.NotEmpty(t, f.unwatched)
		for _, w := range f.unwatched {
			assert.Equal(t, "left 7", w)
		}
	})
}

func TestTheSweepWaitsForTheTTLAfterItsFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.open(t, ttl)
		f.set(func() { f.sessions = [][]any{{int64(77), 3, (5 * time.Minute).Milliseconds()}} })
		passes(5 * time.Minute)
		assert.Empty(t, f.ends())
		passes(5 * time.Minute)
		assert.NotEmpty(t, f.ends())
	})
}

func TestAnObserverWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		o := f.open(t, 0)
		_, err := o.Join(t.Context(), driver.JoinRequest{Queue: "q"})
		require.ErrorIs(t, err, driver.ErrRefused)
		passes(10 * time.Minute)
		require.NoError(t, o.Close(t.Context()))
		assert.Equal(t, []string{"select", f.layout.Examine()}, f.texts)
		assert.Zero(t, f.opens)
	})
}

func TestAnOpeningWaitsForAStandbyToBePromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		standby := true
		f.examined = func(c *fakepg.Conn) []any {
			e := f.whole(c)
			e[1] = standby
			return e
		}
		time.AfterFunc(3*time.Second, func() { f.set(func() { standby = false }) })
		began := time.Now()
		f.open(t, ttl)
		assert.Less(t, time.Since(began), 4*time.Second)

		f.set(func() { standby = true })
		ctx, stop := context.WithTimeout(t.Context(), 1100*time.Millisecond) // between two looks
		defer stop()
		_, err := f.tryOpen(ctx, t, ttl)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorIs(t, err, errStandby)
	})
}

func TestWhatKeepsNoLockIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			column  int
			value   any
			refused string
			accepts bool
		}{
			"version":      {2, 120022, "PostgreSQL 12", false},
			"encoding":     {3, "SQL_ASCII", "SQL_ASCII", false},
			"fsync":        {4, "off", "fsync is off", true},
			"older layout": {10, 0, "fairlock schema postgres --apply", false},
			"newer layout": {10, 2, "update the program", false},
		} {
			for _, accept := range []bool{false, true} {
				f := newFake(t)
				f.opts.AcceptWeaker = accept
				f.examined = func(conn *fakepg.Conn) []any {
					e := f.whole(conn)
					e[c.column] = c.value
					return e
				}
				_, err := f.tryOpen(t.Context(), t, ttl)
				if accept && c.accepts {
					require.NoError(t, err, name)
					continue
				}
				require.ErrorIs(t, err, driver.ErrRefused, name)
				require.ErrorContains(t, err, c.refused, name)
				assert.Zero(t, f.opens)
			}
		}
	})
}

func TestATTLAboveTheGreatestIsRefusedAndNamesTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		_, err := f.tryOpen(t.Context(), t, 2*time.Minute)
		require.ErrorIs(t, err, driver.ErrRefused)
		require.ErrorContains(t, err, "--max-ttl 2m0s")
		assert.Zero(t, f.opens)
	})
}

// quarantined makes the store one of another life, in which this client's claim is stored.
func (f *fake) quarantined(claims *[]string, blessed *bool) {
	f.examined = func(c *fakepg.Conn) []any {
		e := f.whole(c)
		if *blessed {
			return e
		}
		e[11] = "6:00000000"
		if len(*claims) > 0 {
			e[13] = (*claims)[len(*claims)-1]
		}
		return e
	}
	answer := f.server.Answer
	f.server.Answer = func(c *fakepg.Conn, sql string, args []string) fakepg.Reply {
		switch sql {
		case f.layout.Claim(f.life):
			f.set(func() { *claims = append(*claims, args[0]) })
		case f.layout.Keep(f.life), f.layout.Count(f.life):
		case f.layout.Bless(f.life):
			f.set(func() { *blessed = *blessed || args[0] == (*claims)[len(*claims)-1] })
		default:
			return answer(c, sql, args)
		}
		return fakepg.Reply{Tag: "UPDATE 1"}
	}
}

func TestAnOpeningThatGivesUpLeavesItsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var claims []string
		blessed := false
		f.quarantined(&claims, &blessed)
		began := time.Now()
		for i := range 3 {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
			_, err := f.tryOpen(ctx, t, ttl)
			stop()
			require.ErrorIs(t, err, driver.ErrUnavailable)
			var left float64
			_, named, _ := strings.Cut(err.Error(), "another ")
			_, err = fmt.Sscanf(named, "%fs", &left)
			require.NoError(t, err)
			assert.InDelta(t, 60.5-10*float64(i+1), left, 0.6, "of the newest look, at most a second ago")
		}
		f.open(t, ttl)
		assert.GreaterOrEqual(t, time.Since(began), time.Minute)
		assert.Less(t, time.Since(began), 63*time.Second, "one minute in all")
		assert.True(t, blessed)
		assert.Zero(t, f.opens-1, "nothing was made before")
	})
}

// An observer looks at a store in quarantine for as long as that lasts, and writes nothing.
func TestAnObserverClaimsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var claims []string
		blessed := false
		f.quarantined(&claims, &blessed)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute+time.Millisecond)
		defer stop()
		_, err := f.tryOpen(ctx, t, 0)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		assert.Empty(t, claims)
	})
}

package faircron_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	faircron "github.com/fairlock/fairlock/adapters/cron"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/ticks"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logged is a logger that keeps what it gets.
type logged struct {
	mu   sync.Mutex
	errs []error
	info []string
}

func (l *logged) Info(msg string, _ ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.info = append(l.info, msg)
}

func (l *logged) Error(err error, _ string, _ ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

// start starts a Cron with what add adds, and stops it when the test ends.
func start(t *testing.T, add func(*cron.Cron)) *cron.Cron {
	t.Helper()
	c := cron.New(cron.WithLogger(cron.DiscardLogger), cron.WithSeconds())
	add(c)
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
	return c
}

// skewed is a schedule as it is on a machine whose clock is wrong by a constant, and whose
// timers are late by another.
type skewed struct {
	cron.Schedule
	by, late time.Duration
}

func (s skewed) Next(after time.Time) time.Time {
	return s.Schedule.Next(after.Add(s.by)).Add(s.late - s.by)
}

func withClock(ctx context.Context, by time.Duration) context.Context {
	return ticks.WithClock(ctx, func() time.Time { return time.Now().Add(by) })
}

// runs counts the runs of each tick.
type runs struct {
	mu sync.Mutex
	of map[time.Time]int
}

func (r *runs) count(_ context.Context, _ *session.Hold, tick time.Time) error {
	time.Sleep(time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[tick.UTC()]++
	return nil
}

func parsed(t *testing.T, spec string) cron.Schedule {
	t.Helper()
	p := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	s, err := p.Parse(spec)
	require.NoError(t, err)
	return s
}

func TestEachTickRunsOnceOnThreeReplicas(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		every      time.Duration
	}{
		{"each second", "* * * * * *", time.Second},
		{"each minute", "* * * * *", time.Minute},
		{"in a zone", "CRON_TZ=Asia/Tokyo * * * * *", time.Minute},
		{"from the start of the process", "@every 10s", 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 20
				st, got, logger := membackend.New(), &runs{of: map[time.Time]int{}}, &logged{}
				for i := range 3 {
					by := time.Duration(i-1) * 2 * time.Second
					m := mutex.New(memtest.OpenLogged(t, st, nil), "n")
					start(t, func(cr *cron.Cron) {
						schedule, job := faircron.OncePerTick(withClock(t.Context(), by), parsed(t, c.spec), m, logger, got.count)
						cr.Schedule(skewed{schedule, by, time.Duration(i) * 20 * time.Millisecond}, job)
					})
					time.Sleep(c.every / 20) // the replicas are started one after the other
				}
				first := time.Now().Add(2 * time.Second).Truncate(c.every).Add(c.every) // by all clocks
				time.Sleep(time.Until(first.Add(n*c.every + 2500*time.Millisecond)))
				synctest.Wait()

				assert.Empty(t, logger.errs)
				got.mu.Lock()
				defer got.mu.Unlock()
				for i := range n {
					tick := first.UTC().Add(time.Duration(i) * c.every)
					assert.Equal(t, 1, got.of[tick], "tick %d at %v", i, tick)
				}
				for tick := range got.of {
					assert.Equal(t, tick.Truncate(c.every), tick)
				}
			})
		})
	}
}

func TestAStoppedAndStartedCronRunsTheTicksOfThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := &logged{}
		var ran []time.Time
		m := mutex.New(memtest.OpenLogged(t, membackend.New(), nil), "n")
		begin := time.Now()
		c := start(t, func(c *cron.Cron) {
			c.Schedule(faircron.OncePerTick(t.Context(), parsed(t, "@every 10s"), m, logger, func(_ context.Context, _ *session.Hold, tick time.Time) error {
				ran = append(ran, tick)
				return nil
			}))
		})
		time.Sleep(15 * time.Second)
		<-c.Stop().Done()
		time.Sleep(30 * time.Second)
		c.Start()
		time.Sleep(20 * time.Second)
		c.Entries()[0].WrappedJob.Run() // by hand, when the tick 20 was missed
		c.Entries()[0].WrappedJob.Run()

		var at []time.Duration
		for _, tick := range ran {
			at = append(at, tick.Sub(begin))
		}
		assert.Equal(t, []time.Duration{10 * time.Second, 50 * time.Second, 60 * time.Second, 20 * time.Second}, at)
		require.Len(t, logger.errs, 1)
		assert.ErrorContains(t, logger.errs[0], "no scheduled time")
	})
}

func TestALossEndsTheContextAndTheNextReplicaRunsTheTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, logger := membackend.New(), &logged{}
		var ran []time.Time
		for i := range 2 {
			by := -time.Duration(i) * time.Second
			m := mutex.New(memtest.OpenLogged(t, st, nil), "n")
			start(t, func(c *cron.Cron) {
				schedule, job := faircron.OncePerTick(withClock(t.Context(), by), parsed(t, "30 0 * * *"), m, logger, func(ctx context.Context, _ *session.Hold, tick time.Time) error {
					ran = append(ran, tick)
					if i == 0 {
						st.Delete("n", memtest.Entries(st, "n")[0].Key)
						<-ctx.Done()
						assert.ErrorIs(t, context.Cause(ctx), session.ErrLost)
					}
					return nil
				})
				c.Schedule(skewed{schedule, by, 0}, job)
			})
		}
		time.Sleep(31 * time.Minute)

		require.Len(t, ran, 2)
		assert.True(t, ran[0].Equal(ran[1]))
		require.Len(t, logger.errs, 1)
		assert.ErrorIs(t, logger.errs[0], session.ErrLost)
	})
}

func TestSkipIfHeldSkipsWhatAnotherReplicaRuns(t *testing.T) {
	for _, c := range []struct {
		name string
		takes,
		minHold time.Duration
		runs int
	}{
		{"a long job", 5 * time.Second, 0, 10},
		{"a short job", time.Millisecond, 0, 30}, // as on the page of the adapter
		{"a short job, and MinHold", time.Millisecond, 5 * time.Second, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, logger, ran := membackend.New(), &logged{}, 0
				for i := range 3 {
					m := mutex.NewWith(memtest.OpenLogged(t, st, nil), "n", mutex.Options{MinHold: c.minHold})
					skip := faircron.SkipIfHeld(t.Context(), m, logger)
					start(t, func(cr *cron.Cron) {
						cr.Schedule(skewed{parsed(t, "30 * * * * *"), -time.Duration(i) * 2 * time.Second, 0}, skip(cron.FuncJob(func() {
							ran++
							time.Sleep(c.takes)
						})))
					})
				}
				time.Sleep(10 * time.Minute)

				assert.Equal(t, c.runs, ran)
				assert.Len(t, logger.info, 30-c.runs)
				assert.Empty(t, logger.errs)
			})
		})
	}
}

func TestALossEndsTheContextOfAFuncJob(t *testing.T) {
	for _, by := range []string{"lock", "leadership"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, logger := membackend.New(), &logged{}
				s := memtest.OpenLogged(t, st, nil)
				wrapper := faircron.SkipIfHeld(t.Context(), mutex.New(s, "n"), logger)
				if by == "leadership" {
					e := faircron.NewElector(election.New(s, "n"), "", logger)
					t.Cleanup(func() { assert.NoError(t, e.Close()) })
					wrapper = e.OnlyLeader(t.Context())
				}
				called := false
				start(t, func(c *cron.Cron) {
					c.Schedule(parsed(t, "30 * * * *"), wrapper(faircron.FuncJob(func(ctx context.Context, h *session.Hold) error {
						called = true
						st.Delete("n", memtest.Entries(st, "n")[0].Key)
						<-ctx.Done()
						assert.ErrorIs(t, context.Cause(ctx), session.ErrLost)
						return nil
					})))
				})
				time.Sleep(31 * time.Minute)

				assert.True(t, called)
				require.Len(t, logger.errs, 1)
				assert.ErrorIs(t, logger.errs[0], session.ErrLost)
			})
		})
	}
}

func TestOnlyTheLeaderRunsAndCloseHandsOverWithoutALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, logger := membackend.New(), &logged{}
		var log bytes.Buffer
		var electors []*faircron.Elector
		var crons []*cron.Cron
		ran := make([]int, 3)
		for i := range ran {
			e := faircron.NewElector(election.New(memtest.OpenLogged(t, st, &log), "cron"), "", logger)
			synctest.Wait()
			c := start(t, func(c *cron.Cron) {
				c.Schedule(parsed(t, "* * * * *"), e.OnlyLeader(t.Context())(cron.FuncJob(func() { ran[i]++ })))
			})
			electors, crons = append(electors, e), append(crons, c)
		}
		time.Sleep(30 * time.Second)
		for i := range ran {
			require.NoError(t, electors[i].IsLeader())
			time.Sleep(10 * time.Minute)
			<-crons[i].Stop().Done()
			require.NoError(t, electors[i].Close())
			synctest.Wait()
		}
		assert.Equal(t, []int{10, 10, 10}, ran)
		assert.Len(t, logger.info, 10*2+10, "skips of those that did not lead")
		assert.Empty(t, logger.errs)
		assert.Empty(t, log.String())
	})
}

func TestAStopOfTheProgramIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := &logged{}
		s := memtest.OpenLogged(t, membackend.New(), &log)
		ctx, cancel := context.WithCancelCause(t.Context())
		began := make(chan bool, 3)
		work := func(ctx context.Context) error {
			began <- true
			<-ctx.Done()
			return context.Cause(ctx)
		}
		e := faircron.NewElector(election.New(s, "e"), "", logger)
		held := faircron.FuncJob(func(ctx context.Context, _ *session.Hold) error { return work(ctx) })
		c := start(t, func(c *cron.Cron) {
			minute := parsed(t, "* * * * *")
			c.Schedule(minute, faircron.SkipIfHeld(ctx, mutex.New(s, "a"), logger)(held))
			c.Schedule(minute, e.OnlyLeader(ctx)(held))
			c.Schedule(faircron.OncePerTick(ctx, minute, mutex.New(s, "b"), logger, func(ctx context.Context, _ *session.Hold, _ time.Time) error { return work(ctx) }))
		})
		for range 3 {
			<-began
		}
		time.Sleep(90 * time.Second) // further runs skip or wait
		cancel(errors.New("the program ends"))
		<-c.Stop().Done()
		require.NoError(t, e.Close())
		require.NoError(t, s.Close())

		assert.Empty(t, logger.errs)
		assert.Empty(t, log.String())
	})
}

func TestWhatCannotWorkIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := &logged{}
		e := faircron.NewElector(election.New(memtest.OpenLogged(t, membackend.New(), nil), strings.Repeat("n", 1000)), "", logger)
		synctest.Wait()
		require.Len(t, logger.errs, 1)
		require.ErrorIs(t, logger.errs[0], session.ErrInvalidName)
		require.ErrorIs(t, e.IsLeader(), session.ErrInvalidName)
		require.ErrorIs(t, e.Close(), session.ErrInvalidName)

		assert.Panics(t, func() { faircron.FuncJob(nil).Run() })
	})
}

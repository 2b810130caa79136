package fairgocron_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	fairgocron "github.com/fairlock/fairlock/adapters/gocron"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// skewed is a clock that is wrong by a constant, and whose timers are late by another.
type skewed struct {
	clockwork.Clock
	by, late time.Duration
}

func (c skewed) Now() time.Time { return c.Clock.Now().Add(c.by) }

func (c skewed) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	return c.Clock.AfterFunc(d+c.late, f)
}

func clock(by time.Duration) clockwork.Clock { return skewed{clockwork.NewRealClock(), by, 0} }

// results has the errors of runs.
type results struct {
	mu   sync.Mutex
	errs []error
}

func (r *results) add(_ uuid.UUID, _ string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

func (r *results) all() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.errs...)
}

// listen returns the options by which r gets the errors of the job, and of its locks.
func (r *results) listen() gocron.JobOption {
	return gocron.WithEventListeners(gocron.AfterJobRunsWithError(r.add), gocron.AfterLockError(r.add))
}

// scheduler returns one that is shut down at the end of the test.
func scheduler(t *testing.T, o ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(o...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Shutdown()) })
	return s
}

// runs counts the runs of each tick.
type runs struct {
	mu sync.Mutex
	of map[time.Time]int
}

func newRuns() *runs { return &runs{of: map[time.Time]int{}} }

func (r *runs) count(_ context.Context, _ *session.Hold, tick time.Time) error {
	time.Sleep(time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[tick.UTC()]++
	return nil
}

// each checks that each tick of a number in a row ran once.
func (r *runs) each(t *testing.T, first time.Time, every time.Duration, ticks int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range ticks {
		tick := first.UTC().Add(time.Duration(i) * every)
		assert.Equal(t, 1, r.of[tick], "tick %d at %v", i, tick)
	}
	for tick := range r.of {
		assert.Equal(t, tick.Truncate(every), tick)
	}
}

func TestEachTickRunsOnceOnThreeReplicas(t *testing.T) {
	for _, c := range []struct {
		name, crontab string
		every         time.Duration
		o             []gocron.JobOption
		twice         bool // the host begins a second run for a tick now and then
	}{
		{"each second", "* * * * * *", time.Second, nil, false},
		{"each minute", "* * * * *", time.Minute, nil, false},
		{"in a zone", "CRON_TZ=Asia/Tokyo * * * * *", time.Minute, nil, false},
		{"from the start of the process", "@every 10s", 10 * time.Second, nil, false},
		{"from the start of the process, in a zone", "TZ=Asia/Tokyo @every 10s", 10 * time.Second, nil, false},
		{"one at a time", "* * * * * *", time.Second, []gocron.JobOption{gocron.WithSingletonMode(gocron.LimitModeWait)}, true},
		{"one at a time, or none", "* * * * * *", time.Second, []gocron.JobOption{gocron.WithSingletonMode(gocron.LimitModeReschedule)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ticks = 20
				st, got, failed := membackend.New(), newRuns(), &results{}
				for i := range 3 {
					// The first one is early: its wall clock was set back since the timer began.
					clock := skewed{clockwork.NewRealClock(), time.Duration(i-1) * 2 * time.Second, time.Duration(i-1) * 20 * time.Millisecond}
					once := fairgocron.NewOnceWith(mutex.New(memtest.OpenLogged(t, st, nil), "n"), got.count, fairgocron.OnceOptions{Clock: clock})
					s := scheduler(t, gocron.WithClock(clock))
					_, err := s.NewJob(gocron.CronJob(c.crontab, true), once.Task(), append(c.o, once.Schedule(), failed.listen())...)
					require.NoError(t, err)
					s.Start()
					time.Sleep(c.every / 20) // the replicas are started one after the other
				}
				first := time.Now().Add(2 * time.Second).Truncate(c.every).Add(c.every) // by all clocks
				// Between two ticks: Shutdown would wait in a busy loop for a run, and virtual time stand still.
				time.Sleep(time.Until(first.Add(ticks*c.every + 2500*time.Millisecond)))
				synctest.Wait()

				for _, err := range failed.all() {
					assert.True(t, c.twice && errors.Is(err, fairgocron.ErrNoTick), err)
				}
				got.each(t, first, c.every, ticks)
			})
		})
	}
}

func TestALossEndsTheContextAndTheNextReplicaRunsTheTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, failed := membackend.New(), &results{}
		var ran []time.Time
		for i := range 2 {
			clock := clock(-time.Duration(i) * time.Second)
			once := fairgocron.NewOnceWith(mutex.New(memtest.OpenLogged(t, st, nil), "n"), func(ctx context.Context, _ *session.Hold, tick time.Time) error {
				ran = append(ran, tick)
				if i == 0 {
					st.Delete("n", memtest.Entries(st, "n")[0].Key)
					<-ctx.Done()
					assert.ErrorIs(t, context.Cause(ctx), session.ErrLost)
				}
				return nil
			}, fairgocron.OnceOptions{Clock: clock})
			s := scheduler(t, gocron.WithClock(clock))
			_, err := s.NewJob(gocron.CronJob("30 0 * * *", false), once.Task(), once.Schedule(), failed.listen())
			require.NoError(t, err)
			s.Start()
		}
		time.Sleep(31 * time.Minute)

		require.Len(t, ran, 2)
		assert.True(t, ran[0].Equal(ran[1]))
		require.Len(t, failed.all(), 1)
		assert.ErrorIs(t, failed.all()[0], session.ErrLost)
	})
}

func TestShutdownEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		began, ended := make(chan bool), false
		once := fairgocron.NewOnce(mutex.New(memtest.OpenLogged(t, membackend.New(), &log), "n"), func(ctx context.Context, _ *session.Hold, _ time.Time) error {
			close(began)
			<-ctx.Done()
			ended = true
			return ctx.Err()
		})
		s, err := gocron.NewScheduler()
		require.NoError(t, err)
		_, err = s.NewJob(gocron.CronJob("* * * * *", false), once.Task(), once.Schedule())
		require.NoError(t, err)
		s.Start()
		<-began

		require.NoError(t, s.Shutdown())
		assert.True(t, ended)
		assert.Empty(t, log.String())
	})
}

func TestARunWithoutATickIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mutex.New(memtest.OpenLogged(t, membackend.New(), nil), "n")
		work := func(context.Context, *session.Hold, time.Time) error {
			assert.Fail(t, "it was called")
			return nil
		}
		s := scheduler(t)
		by := map[string]*results{}
		add := func(name string, definition gocron.JobDefinition, once *fairgocron.Once, o ...gocron.JobOption) gocron.Job {
			by[name] = &results{}
			job, err := s.NewJob(definition, once.Task(), append(o, by[name].listen())...)
			require.NoError(t, err)
			return job
		}
		once := fairgocron.NewOnce(m, work)
		byHand := add("by hand", gocron.CronJob("@yearly", false), once, once.Schedule())
		once = fairgocron.NewOnce(m, work)
		add("at once", gocron.CronJob("@yearly", false), once, once.Schedule(), gocron.WithStartAt(gocron.WithStartImmediately()))
		once = fairgocron.NewOnce(m, work)
		add("no cron job", gocron.DurationJob(time.Minute), once, once.Schedule())
		once = fairgocron.NewOnce(m, work)
		add("no schedule", gocron.CronJob("* * * * *", false), once)
		s.Start()
		require.NoError(t, byHand.RunNow())
		time.Sleep(90 * time.Second)

		for name, r := range by {
			require.Len(t, r.all(), 1, name)
			assert.ErrorIs(t, r.all()[0], fairgocron.ErrNoTick, name)
		}
	})
}

func TestABadCrontabIsTheHostsError(t *testing.T) {
	once := fairgocron.NewOnce(mutex.New(nil, "n"), nil)
	s := scheduler(t)
	for _, crontab := range []string{"* * *", "@every x", "TZ=Asia/Tokyo @every", "TZ=nowhere * * * * *"} {
		_, err := s.NewJob(gocron.CronJob(crontab, false), once.Task(), once.Schedule())
		require.ErrorIs(t, err, gocron.ErrCronJobParse, crontab)
	}
	_, err := s.NewJob(gocron.CronJob("0 0 31 2 *", false), once.Task(), once.Schedule())
	require.True(t, errors.Is(err, gocron.ErrCronJobInvalid), "%v", err)
}

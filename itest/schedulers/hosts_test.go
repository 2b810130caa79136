package schedulers

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/robfig/cron/v3"

	faircron "github.com/fairlock/fairlock/adapters/cron"
	fairgocron "github.com/fairlock/fairlock/adapters/gocron"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/ticks"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// hosts start the scheduler of a replica, and return how to shut it down. What they write to
// standard error fails the test.
var hosts = map[string]func(context.Context, *running) (shutdown func() error, err error){
	"gocron": inGocron, "cron": inCron,
}

// lock is the lock of the job.
func (r *running) lock() *mutex.Mutex {
	return mutex.NewWith(r.s, "report", mutex.Options{OnceFor: time.Minute})
}

// asLeader is the job of an Elector, which does not get the scheduled time.
func (r *running) asLeader(ctx context.Context, h *session.Hold) error {
	return r.work(ctx, h, r.clock())
}

// ownClock is the clock of a replica. It may go fast: gocron has no cron jobs with less than a
// second between two ticks, because it takes two times in one second for the hour that a clock
// repeats at the end of summer time.
type ownClock struct {
	clockwork.Clock
	r *running
}

func (c ownClock) Now() time.Time { return c.r.clock() }

func (c ownClock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	return c.Clock.AfterFunc(d/time.Duration(c.r.Speed), f)
}

// counting is a schedule of the ticks that count. With more, a service that is too slow for them
// would get ever longer queues, and never be done.
type counting struct{ r *running }

func (c counting) Next(after time.Time) time.Time {
	next := ticks.Next(c.r.Every, after)
	if next.Before(c.r.first) {
		return c.r.first
	}
	if _, ok := c.r.index(next); !ok {
		return c.r.first.Add(24 * time.Hour) // never
	}
	return next
}

// steady is a gocron.Cron of the ticks that count.
type steady struct{ counting }

func (steady) IsValid(string, *time.Location, time.Time) error { return nil }

func inGocron(_ context.Context, r *running) (func() error, error) {
	clock := ownClock{clockwork.NewRealClock(), r}
	failed := func(_ uuid.UUID, name string, err error) {
		r.host(-1)
		if !errors.Is(err, context.Canceled) { // Shutdown ends runs that are under way
			fmt.Fprintln(os.Stderr, name, err)
		}
	}
	o := []gocron.SchedulerOption{gocron.WithClock(clock), gocron.WithStopTimeout(hang.Guard)}
	closed := func() error { return nil }
	var task gocron.Task
	var cron gocron.JobOption
	if r.Elector {
		e := fairgocron.NewElector(election.New(r.s, "scheduler"), "", slog.Default())
		o, closed = append(o, gocron.WithDistributedElector(e)), e.Close
		task, cron = e.Task(r.asLeader), gocron.WithCronImplementation(steady{counting{r}})
	} else {
		once := fairgocron.NewOnceWith(r.lock(), r.work, fairgocron.OnceOptions{Clock: clock, Cron: steady{counting{r}}})
		task, cron = once.Task(), once.Schedule()
	}
	s, err := gocron.NewScheduler(o...)
	if err != nil {
		return nil, err
	}
	_, err = s.NewJob(gocron.CronJob("", false), task, cron, gocron.WithName("report"), gocron.WithEventListeners(
		gocron.BeforeJobRuns(func(uuid.UUID, string) { r.host(1) }),
		gocron.AfterJobRuns(func(uuid.UUID, string) { r.host(-1) }),
		gocron.AfterJobRunsWithError(failed),
	))
	if err != nil {
		return nil, err
	}
	s.Start()
	return func() error {
		if err := s.Shutdown(); err != nil {
			return err
		}
		return closed()
	}, nil
}

// shifted is a schedule as the Cron of a replica sees it: Cron has no clock to be set.
type shifted struct {
	cron.Schedule
	r *running
}

func (s shifted) Next(after time.Time) time.Time {
	return s.Schedule.Next(after.Add(s.r.Skew)).Add(-s.r.Skew)
}

func inCron(ctx context.Context, r *running) (func() error, error) {
	logger := cron.PrintfLogger(log.New(os.Stderr, "cron: ", 0))
	c := cron.New(cron.WithLogger(logger))
	closed := func() error { return nil }
	schedule, job := faircron.OncePerTick(ticks.WithClock(ctx, r.clock), counting{r}, r.lock(), logger, r.work)
	if r.Elector {
		e := faircron.NewElector(election.New(r.s, "scheduler"), "", logger)
		job, closed = e.OnlyLeader(ctx)(faircron.FuncJob(r.asLeader)), e.Close
	}
	c.Schedule(shifted{schedule, r}, cron.FuncJob(func() {
		r.host(1)
		defer r.host(-1)
		job.Run()
	}))
	c.Start()
	return func() error {
		<-c.Stop().Done()
		return closed()
	}, nil
}

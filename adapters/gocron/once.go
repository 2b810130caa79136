package fairgocron

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"

	"github.com/fairlock/fairlock/internal/ticks"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// ErrNoTick is the error of a run of Once.Task that has no scheduled time: of Job.RunNow,
// gocron.WithStartImmediately, or a job without Once.Schedule. It is also that of the second of
// two runs which gocron begins for one scheduled time: with gocron.WithSingletonMode it does so now
// and then. The work was not called.
var ErrNoTick = errors.New("fairgocron: the run has no scheduled time")

// Once runs a job once for each scheduled time, by whichever replica comes first. It is for
// one job of the scheduler, which is a gocron.CronJob and has both Task and Schedule:
//
//	once := fairgocron.NewOnce(m, report)
//	_, err := scheduler.NewJob(gocron.CronJob("0 3 * * *", false), once.Task(), once.Schedule())
//
// All replicas use the same lock and the same crontab, in the same time zone. Everything else
// is as of mutex.Once, whose key is the scheduled time: replicas wait for each other, and if
// the work fails, or its lock is lost, the next replica does it.
type Once struct {
	m     *mutex.Mutex
	work  func(ctx context.Context, h *session.Hold, tick time.Time) error
	clock clockwork.Clock
	cron  gocron.Cron
	ticks ticks.Ticks
}

// OnceOptions are what NewOnceWith takes. The zero value is what NewOnce uses.
type OnceOptions struct {
	// Clock is that of gocron.WithClock. nil means that the scheduler has the real clock.
	Clock clockwork.Clock

	// Cron is what would be given to gocron.WithCronImplementation without Once. nil means
	// gocron's own, with an optional field for seconds.
	Cron gocron.Cron
}

// NewOnce returns a Once that calls work under the lock m. The context of work ends when the
// lock is lost, and when the scheduler stops. tick is the scheduled time.
func NewOnce(m *mutex.Mutex, work func(ctx context.Context, h *session.Hold, tick time.Time) error) *Once {
	return NewOnceWith(m, work, OnceOptions{})
}

// NewOnceWith is NewOnce with options.
func NewOnceWith(m *mutex.Mutex, work func(ctx context.Context, h *session.Hold, tick time.Time) error, o OnceOptions) *Once {
	if o.Clock == nil {
		o.Clock = clockwork.NewRealClock()
	}
	if o.Cron == nil {
		o.Cron = &crontab{Cron: gocron.NewDefaultCron(true)}
	}
	return &Once{m: m, work: work, clock: o.Clock, cron: o.Cron}
}

// Task returns the task of the job. Listeners get the errors of mutex.Once, of work, and
// ErrNoTick, by gocron.AfterJobRunsWithError.
func (o *Once) Task() gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error {
		tick, ok := o.ticks.Take(o.clock.Now())
		if !ok {
			return fmt.Errorf("%w: see Once.Schedule", ErrNoTick)
		}
		return o.m.Once(ctx, ticks.Key(tick), func(ctx context.Context, h *session.Hold) error {
			return o.work(ctx, h, tick)
		})
	})
}

// Schedule returns the option by which Once learns the scheduled times. It takes the place of
// gocron.WithCronImplementation. The times of "@every 5m" are the multiples of five minutes,
// and not counted from the start of the process, so that all replicas have the same.
func (o *Once) Schedule() gocron.JobOption { return gocron.WithCronImplementation(planner{o}) }

// planner is a gocron.Cron that records the times which it returns. The scheduler may ask
// for times that do not become runs, and for one time twice.
type planner struct{ o *Once }

func (p planner) IsValid(crontab string, location *time.Location, now time.Time) error {
	return p.o.cron.IsValid(crontab, location, now)
}

func (p planner) Next(last time.Time) time.Time {
	next := p.o.cron.Next(last)
	p.o.ticks.Plan(last, next)
	return next
}

// crontab is gocron's own implementation, but for the phase of "@every".
type crontab struct {
	gocron.Cron
	every time.Duration // 0 for other descriptions
}

func (c *crontab) IsValid(text string, location *time.Location, now time.Time) error {
	if err := c.Cron.IsValid(text, location, now); err != nil {
		return err
	}
	zone, rest, several := strings.Cut(text, " ")
	if several && strings.Contains(zone, "TZ=") {
		text = strings.TrimSpace(rest)
	}
	c.every = 0
	period, constant := strings.CutPrefix(text, "@every ")
	if constant {
		every, err := time.ParseDuration(period)
		if err != nil {
			return errors.Join(gocron.ErrCronJobParse, err)
		}
		c.every = max(every.Truncate(time.Second), time.Second) // as of package cron
	}
	return nil
}

func (c *crontab) Next(last time.Time) time.Time {
	if c.every > 0 {
		return ticks.Next(c.every, last)
	}
	return c.Cron.Next(last)
}

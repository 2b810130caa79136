package faircron

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/fairlock/fairlock/internal/ticks"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// OncePerTick returns what cron.Cron.Schedule takes to call work once for each time of the
// schedule, by whichever replica comes first:
//
//	c.Schedule(faircron.OncePerTick(ctx, every5, m, logger, report))
//
// All replicas use the same lock m and the same schedule, in the same time zone. Everything
// else is as of mutex.Once, whose key is the scheduled time: replicas wait for each other,
// and if work fails, or the lock is lost, the next replica calls it. The context of work ends
// with ctx and when the lock is lost; tick is the scheduled time. logger gets errors, but not
// those of the end of ctx.
//
// The times of "@every 5m", a cron.ConstantDelaySchedule, are the multiples of five minutes,
// and not counted from the start of the process, so that all replicas have the same. A run by
// hand, as by Entry.WrappedJob, has no tick: the logger gets an error, and work is not called.
//
// The two results belong together, and to one entry of one Cron.
func OncePerTick(
	ctx context.Context, schedule cron.Schedule, m *mutex.Mutex, logger cron.Logger,
	work func(ctx context.Context, h *session.Hold, tick time.Time) error,
) (cron.Schedule, cron.Job) {
	p := &planner{schedule: schedule}
	if constant, ok := schedule.(cron.ConstantDelaySchedule); ok {
		p.schedule = every(constant.Delay)
	}
	now := ticks.Clock(ctx)
	return p, cron.FuncJob(func() {
		tick, ok := p.ticks.Take(now())
		if !ok {
			logger.Error(errNoTick, "skip", "lock", m.Name())
			return
		}
		err := m.Once(ctx, ticks.Key(tick), func(ctx context.Context, h *session.Hold) error {
			return work(ctx, h, tick)
		})
		report(ctx, logger, err, "lock", m.Name(), "tick", tick)
	})
}

// planner is a schedule that records the times which it returns. After Stop and Start, Cron
// asks again without having run the job.
type planner struct {
	schedule cron.Schedule
	ticks    ticks.Ticks
}

func (p *planner) Next(after time.Time) time.Time {
	next := p.schedule.Next(after).Round(0) // by the wall clock, which the tick is of
	p.ticks.Plan(after, next)
	return next
}

// every is a schedule whose times are the multiples of a duration.
type every time.Duration

func (e every) Next(after time.Time) time.Time { return ticks.Next(time.Duration(e), after) }

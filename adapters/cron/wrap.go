package faircron

import (
	"context"
	"errors"

	"github.com/robfig/cron/v3"

	"github.com/fairlock/fairlock/internal/candidate"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// errNoTick is reported for a run of OncePerTick that Cron has not begun.
var errNoTick = errors.New("faircron: the run has no scheduled time")

// FuncJob is cron.FuncJob for a job that needs its context or its token. Put the wrapper of
// this package last in the chain: only the innermost wrapper sees a FuncJob.
type FuncJob func(ctx context.Context, h *session.Hold) error

// Run panics: without SkipIfHeld or OnlyLeader around it the job has no lock.
func (FuncJob) Run() {
	panic("faircron: a FuncJob runs only directly inside of SkipIfHeld or OnlyLeader")
}

// SkipIfHeld returns a wrapper that skips a run while another replica, or an earlier run in
// this process, holds the lock m. As cron.SkipIfStillRunning it logs skips at Info level.
//
// It cannot run each tick once: as soon as a run has ended, a replica whose clock is later
// runs the same tick. To cover such differences, give m mutex.Options.MinHold: longer than
// clocks differ, and shorter than the time between two ticks. Where each tick matters, use
// OncePerTick instead.
//
// The context of a FuncJob ends with ctx and when the lock is lost; other jobs go on.
// logger gets the errors of the job and of the lock, session.ErrLost too, but not those of
// the end of ctx.
func SkipIfHeld(ctx context.Context, m *mutex.Mutex, logger cron.Logger) cron.JobWrapper {
	return wrap(ctx, m.TryDo, session.ErrNotAcquired, logger, "lock", m.Name())
}

// Elector is a candidate that campaigns in the background, from NewElector to Close.
type Elector struct {
	c      *candidate.Candidate
	name   string
	logger cron.Logger
}

// NewElector starts to campaign. value is what election.Leader returns to others, an address
// for example. logger gets an error if the campaign has ended because waiting cannot help,
// see election.Run; this process runs no job from then on.
func NewElector(e *election.Election, value string, logger cron.Logger) *Elector {
	return &Elector{
		c: candidate.New(e, value, func(err error) {
			logger.Error(err, "this process leads no more", "election", e.Name())
		}),
		name: e.Name(), logger: logger,
	}
}

// OnlyLeader returns a wrapper that skips a run if this process does not lead. It asks no
// service. While there is no leader, no replica runs jobs, and those ticks are left out. After
// a change of the leader, ticks within the difference of the two clocks run twice, or not at
// all. Where each tick matters, use OncePerTick instead.
//
// The context of a FuncJob ends with ctx, with Close, and when the leadership is lost; other
// jobs go on. Skips and errors are logged as by SkipIfHeld.
func (e *Elector) OnlyLeader(ctx context.Context) cron.JobWrapper {
	return wrap(ctx, e.c.Do, session.ErrNotLeader, e.logger, "election", e.name)
}

// IsLeader returns nil if this process leads. Otherwise the error is session.ErrNotLeader,
// and also the reason if the campaign has ended. It sends nothing and reads the clock, so it
// is right also after the process was stopped.
func (e *Elector) IsLeader() error { return e.c.Leads() }

// Close ends the campaign, waits for the jobs inside of OnlyLeader, and resigns. Call it after
// Cron.Stop, and before Session.Close, which would log a lost leadership. Close returns why
// the campaign had ended before, if it had. Further calls do the same.
func (e *Elector) Close() error { return e.c.Close() }

// wrap returns a wrapper that runs jobs by do, which returns skip if it did not call the work.
func wrap(
	ctx context.Context, do func(context.Context, func(context.Context, *session.Hold) error) error, skip error,
	logger cron.Logger, about ...any,
) cron.JobWrapper {
	return func(j cron.Job) cron.Job {
		return cron.FuncJob(func() {
			called := false
			err := do(ctx, func(ctx context.Context, h *session.Hold) error {
				called = true
				if f, ok := j.(FuncJob); ok {
					return f(ctx, h)
				}
				j.Run()
				return nil
			})
			if !called && errors.Is(err, skip) && ctx.Err() == nil {
				logger.Info("skip", about...)
				return
			}
			report(ctx, logger, err, about...)
		})
	}
}

// report logs the error of a run. The end of ctx, by which the program stops its jobs, is no
// error.
func report(ctx context.Context, logger cron.Logger, err error, about ...any) {
	if err == nil || ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return
	}
	logger.Error(err, "run", about...)
}

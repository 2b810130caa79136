package fairgocron

import (
	"context"

	"github.com/go-co-op/gocron/v2"

	"github.com/fairlock/fairlock/internal/candidate"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// Elector is a gocron.Elector: only the leader runs jobs. It campaigns in the background from
// NewElector to Close. While there is no leader, no replica runs jobs, and those ticks are
// left out. After a change of the leader, ticks within the difference of the two clocks run
// twice, or not at all. Where each tick matters, use Once instead.
//
// gocron does not stop a running job when the leadership is lost. Only a job with Elector.Task
// gets a context that ends then.
type Elector struct{ c *candidate.Candidate }

var _ gocron.Elector = (*Elector)(nil)

// NewElector starts to campaign. value is what election.Leader returns to others, an address
// for example. logger, which may be that of the scheduler or a *slog.Logger, gets an error if
// the campaign has ended because waiting cannot help, see election.Run; this process runs no
// job from then on. It may be nil.
func NewElector(e *election.Election, value string, logger gocron.Logger) *Elector {
	return &Elector{candidate.New(e, value, func(err error) {
		if logger != nil {
			logger.Error("fairgocron: this process leads no more", "election", e.Name(), "err", err)
		}
	})}
}

// IsLeader returns nil if this process leads. Otherwise the error is session.ErrNotLeader,
// and also the reason if the campaign has ended. It sends nothing and reads the clock, so it
// is right also after the process was stopped. The scheduler calls it at each tick.
func (e *Elector) IsLeader(context.Context) error { return e.c.Leads() }

// Task returns a task that calls work if this process leads. The context of work ends when
// the leadership is lost, when the scheduler stops, and with Close. If the leadership was
// lost, the error of the run is also session.ErrLost.
func (e *Elector) Task(work func(ctx context.Context, h *session.Hold) error) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error { return e.c.Do(ctx, work) })
}

// Close ends the campaign, and resigns when all work of Task has returned. Call it after
// Scheduler.Shutdown, which waits for other jobs, and before Session.Close, which would log a
// lost leadership. Close returns why the campaign had ended before, if it had. Further calls
// do the same.
func (e *Elector) Close() error { return e.c.Close() }

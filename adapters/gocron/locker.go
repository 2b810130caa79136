package fairgocron

import (
	"context"
	"fmt"

	"github.com/go-co-op/gocron/v2"

	"github.com/fairlock/fairlock/internal/recipe"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// Locker is a gocron.Locker: a replica skips a run while another one has the lock of the job.
// A Locker cannot run each tick once, because gocron does not pass the scheduled time: as
// soon as a run has ended, a replica whose clock is later runs the same tick. To cover such
// differences, give the lock mutex.Options.MinHold: longer than clocks differ, and shorter
// than the time between two ticks. Where each tick matters, use Once instead.
//
// gocron does not stop a running job when its lock is lost. Only a job with Locker.Task gets a
// context that ends then.
type Locker struct {
	named *mutex.Named
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker that takes, for each job, the Mutex that lock returns. Name every
// job by gocron.WithName: the name that gocron invents is that of a function, which differs
// between programs and versions, and may be that of several jobs.
//
//	fairgocron.NewLocker(func(job string) *mutex.Mutex {
//		return mutex.NewWith(s, "gocron/"+job, mutex.Options{MinHold: 5 * time.Second})
//	})
func NewLocker(lock func(job string) *mutex.Mutex) *Locker {
	return &Locker{named: mutex.NewNamed(lock)}
}

// Lock acquires the lock of a job, or returns an error at once, as mutex.TryLock does: it is
// session.ErrNotAcquired if another replica has the lock, or an earlier run in this process
// has not ended. The scheduler calls Lock, and reports the error by gocron.AfterLockError.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	if err := l.named.TryLock(ctx, job); err != nil {
		return nil, err
	}
	return locked{l.named, job}, nil
}

// Task returns the task of a job that is named by gocron.WithName(job) and runs under this
// Locker. The context of work ends when the lock is lost, and when the scheduler stops. If
// the lock was lost, the error of the run is also session.ErrLost.
func (l *Locker) Task(job string, work func(ctx context.Context, h *session.Hold) error) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error {
		h, ok := l.named.Hold(job)
		if !ok {
			return fmt.Errorf("fairgocron: job %q: %w: the scheduler has not locked a job of that name", job, session.ErrUnlocked)
		}
		return recipe.Within(ctx, h.Context(), h, work)
	})
}

// locked is the lock of one run.
type locked struct {
	named *mutex.Named
	job   string
}

func (l locked) Unlock(ctx context.Context) error { return l.named.Unlock(ctx, l.job) }

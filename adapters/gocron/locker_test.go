package fairgocron_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fairgocron "github.com/fairlock/fairlock/adapters/gocron"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// lockers returns a Locker whose locks have these options.
func lockers(s *session.Session, o mutex.Options) *fairgocron.Locker {
	return fairgocron.NewLocker(func(job string) *mutex.Mutex { return mutex.NewWith(s, "gocron/"+job, o) })
}

func TestALockerSkipsWhatAnotherReplicaRuns(t *testing.T) {
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
				st, failed, ran := membackend.New(), &results{}, 0
				for i := range 3 {
					clock := clock(-time.Duration(i) * 2 * time.Second)
					locker := lockers(memtest.OpenLogged(t, st, nil), mutex.Options{MinHold: c.minHold})
					s := scheduler(t, gocron.WithClock(clock), gocron.WithDistributedLocker(locker))
					_, err := s.NewJob(gocron.CronJob("30 * * * * *", true), gocron.NewTask(func() {
						ran++
						time.Sleep(c.takes)
					}), gocron.WithName("report"), failed.listen())
					require.NoError(t, err)
					s.Start()
				}
				time.Sleep(10 * time.Minute)

				assert.Equal(t, c.runs, ran)
				assert.Len(t, failed.all(), 30-c.runs)
				for _, err := range failed.all() {
					assert.ErrorIs(t, err, session.ErrNotAcquired)
				}
			})
		})
	}
}

func TestALossEndsTheContextOfALockersTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, failed := membackend.New(), &results{}
		locker := lockers(memtest.OpenLogged(t, st, nil), mutex.Options{})
		s := scheduler(t, gocron.WithDistributedLocker(locker))
		var token atomic.Int64
		_, err := s.NewJob(gocron.DurationJob(time.Minute), locker.Task("report", func(ctx context.Context, h *session.Hold) error {
			token.Store(int64(h.Token()))
			st.Delete("gocron/report", memtest.Entries(st, "gocron/report")[0].Key)
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), session.ErrLost)
			return nil
		}), gocron.WithName("report"), failed.listen())
		require.NoError(t, err)
		s.Start()
		time.Sleep(90 * time.Second)

		assert.Positive(t, token.Load())
		require.Len(t, failed.all(), 1)
		assert.ErrorIs(t, failed.all()[0], session.ErrLost)
	})
}

func TestALockersTaskNeedsItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := &results{}
		locker := lockers(memtest.OpenLogged(t, membackend.New(), nil), mutex.Options{})
		s := scheduler(t, gocron.WithDistributedLocker(locker))
		_, err := s.NewJob(gocron.DurationJob(time.Minute), locker.Task("report", func(context.Context, *session.Hold) error {
			assert.Fail(t, "it was called")
			return nil
		}), gocron.WithName("another"), failed.listen())
		require.NoError(t, err)
		s.Start()
		time.Sleep(90 * time.Second)

		require.Len(t, failed.all(), 1)
		assert.ErrorIs(t, failed.all()[0], session.ErrUnlocked)
	})
}

func TestAShutdownWithALockerLogsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		session := memtest.OpenLogged(t, membackend.New(), &log)
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(lockers(session, mutex.Options{})))
		require.NoError(t, err)
		began := make(chan bool)
		_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(func(ctx context.Context) {
			close(began)
			<-ctx.Done()
		}), gocron.WithName("report"))
		require.NoError(t, err)
		s.Start()
		<-began

		require.NoError(t, s.Shutdown())
		require.NoError(t, session.Close())
		assert.Empty(t, log.String())
	})
}

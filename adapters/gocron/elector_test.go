package fairgocron_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fairgocron "github.com/fairlock/fairlock/adapters/gocron"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

func TestOnlyTheLeaderRunsAndCloseHandsOverWithoutALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		var log bytes.Buffer
		var electors []*fairgocron.Elector
		var schedulers []gocron.Scheduler
		var sessions []*session.Session
		ran := make([]int, 3)
		for i := range ran {
			s := memtest.OpenLogged(t, st, &log)
			e := fairgocron.NewElector(election.New(s, "gocron"), "", slog.New(slog.NewTextHandler(&log, nil)))
			synctest.Wait()
			sched, err := gocron.NewScheduler(gocron.WithDistributedElector(e))
			require.NoError(t, err)
			_, err = sched.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(func() { ran[i]++ }))
			require.NoError(t, err)
			sched.Start()
			sessions, electors, schedulers = append(sessions, s), append(electors, e), append(schedulers, sched)
		}
		time.Sleep(30 * time.Second)
		for i := range ran {
			time.Sleep(10 * time.Minute)
			require.NoError(t, schedulers[i].Shutdown())
			require.NoError(t, electors[i].Close())
			require.NoError(t, sessions[i].Close())
		}
		assert.InDelta(t, 10, ran[0], 1)
		assert.InDelta(t, 10, ran[1], 1)
		assert.InDelta(t, 10, ran[2], 1)
		assert.Empty(t, log.String())
	})
}

func TestALossEndsTheContextOfAnElectorsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, failed := membackend.New(), &results{}
		e := fairgocron.NewElector(election.New(memtest.OpenLogged(t, st, nil), "gocron"), "", nil)
		s := scheduler(t, gocron.WithDistributedElector(e))
		_, err := s.NewJob(gocron.DurationJob(time.Minute), e.Task(func(ctx context.Context, h *session.Hold) error {
			assert.Positive(t, h.Token())
			st.Delete("gocron", memtest.Entries(st, "gocron")[0].Key)
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), session.ErrLost)
			return nil
		}), failed.listen())
		require.NoError(t, err)
		s.Start()
		time.Sleep(90 * time.Second)

		require.Len(t, failed.all(), 1)
		require.ErrorIs(t, failed.all()[0], session.ErrLost)
		require.NoError(t, e.IsLeader(t.Context()), "it has campaigned again")
		require.NoError(t, e.Close())
	})
}

func TestACampaignThatCannotSucceedIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e := fairgocron.NewElector(election.New(memtest.OpenLogged(t, membackend.New(), nil), strings.Repeat("n", 1000)), "", slog.New(slog.NewTextHandler(&log, nil)))
		synctest.Wait()

		require.ErrorIs(t, e.IsLeader(t.Context()), session.ErrNotLeader)
		require.ErrorIs(t, e.IsLeader(t.Context()), session.ErrInvalidName)
		assert.Contains(t, log.String(), "level=ERROR")
		require.ErrorIs(t, e.Close(), session.ErrInvalidName)
	})
}

package fairleaderelection_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/client-go/tools/leaderelection"

	fairleaderelection "github.com/fairlock/fairlock/adapters/leaderelection"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// events are what happened, in order.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) add(parts ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, strings.TrimSpace(fmt.Sprintln(parts...)))
}

func (e *events) list() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.all...)
}

// callbacks returns callbacks that add their calls. The work needs a time to end.
func (e *events) callbacks(id string, ends time.Duration) leaderelection.LeaderCallbacks {
	return leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			e.add(id, "started")
			<-ctx.Done()
			time.Sleep(ends)
			e.add(id, "worked")
		},
		OnStoppedLeading: func() { e.add(id, "stopped") },
	}
}

// of returns the election of a session that is closed at the end of the test, and logs nothing.
func of(t *testing.T, st *membackend.Store) *election.Election {
	t.Helper()
	var log bytes.Buffer
	s := memtest.OpenLogged(t, st, &log)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.Empty(t, log.String())
	})
	return election.New(s, "n")
}

// run starts Run, and returns how to end its context, and its error.
func run(t *testing.T, e *election.Election, c fairleaderelection.Config) (stop func(), err <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() { errs <- fairleaderelection.Run(ctx, e, c) }()
	synctest.Wait()
	return cancel, errs
}

func TestRunStopsBeforeTheNextLeaderStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, got, leaders := membackend.New(), &events{}, &events{}
		var stops []func()
		var errs []<-chan error
		for _, id := range []string{"a", "b", "c"} {
			c := fairleaderelection.Config{Identity: id, ReleaseOnCancel: true, Callbacks: got.callbacks(id, time.Hour)}
			c.Callbacks.OnNewLeader = func(leader string) { leaders.add(id, "sees", leader) }
			stop, err := run(t, of(t, st), c)
			stops, errs = append(stops, stop), append(errs, err)
		}
		stops[1]() // it never led
		require.NoError(t, <-errs[1])
		time.Sleep(time.Minute)
		stops[0]()
		require.NoError(t, <-errs[0])
		time.Sleep(time.Minute)
		stops[2]()
		require.NoError(t, <-errs[2])

		assert.Equal(t, []string{"a started", "b stopped", "a worked", "a stopped", "c started", "c worked", "c stopped"}, got.list())
		assert.ElementsMatch(t, []string{"a sees a", "b sees a", "c sees a", "c sees c"}, leaders.list())
	})
}

func TestALossStopsAtOnceAndTheWatchDogFailsUntilTheWorkHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, got := membackend.New(), &events{}
		client := st.NewClient()
		s, err := client.Open(t.Context(), &session.Options{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		ttl := s.Options().TTL
		var dogs [2]fairleaderelection.HealthzAdaptor
		_, failed := run(t, election.New(s, "n"), fairleaderelection.Config{Identity: "a", Callbacks: got.callbacks("a", 10*ttl), WatchDog: &dogs[0]})
		stop, ended := run(t, of(t, st), fairleaderelection.Config{Identity: "b", Callbacks: got.callbacks("b", 0), WatchDog: &dogs[1], ReleaseOnCancel: true})
		for i := range dogs {
			require.NoError(t, dogs[i].Check(nil))
		}
		client.Cut(fault.Both)
		cut := time.Now()
		for len(got.list()) == 1 {
			require.NoError(t, dogs[0].Check(nil))
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		require.Equal(t, []string{"a started", "a stopped"}, got.list(), "before anybody else starts, and while the work goes on")
		require.Less(t, time.Since(cut), ttl)
		requests := client.Requests()
		require.Error(t, dogs[0].Check(nil))
		require.Equal(t, requests, client.Requests())
		time.Sleep(2 * ttl)
		require.Error(t, dogs[0].Check(nil))
		require.NoError(t, dogs[1].Check(nil))
		client.Heal()
		require.ErrorIs(t, <-failed, session.ErrLost)
		require.NoError(t, dogs[0].Check(nil))
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, s.Close())

		assert.Equal(t, []string{"a started", "a stopped", "b started", "a worked", "b worked", "b stopped"}, got.list())
	})
}

func TestWithoutReleaseOnCancelTheLeadershipLastsUntilTheSessionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, got := membackend.New(), &events{}
		s := memtest.OpenLogged(t, st, nil)
		stop, ended := run(t, election.New(s, "n"), fairleaderelection.Config{Identity: "a", Callbacks: got.callbacks("a", 0)})
		stop2, ended2 := run(t, of(t, st), fairleaderelection.Config{Identity: "b", Callbacks: got.callbacks("b", 0), ReleaseOnCancel: true})
		stop()
		require.NoError(t, <-ended)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"a started", "a worked", "a stopped"}, got.list())
		require.NoError(t, s.Close())
		synctest.Wait()
		require.Equal(t, []string{"a started", "a worked", "a stopped", "b started"}, got.list())
		stop2()
		require.NoError(t, <-ended2)
	})
}

func TestRunLeadsOnWhenOnStartedLeadingHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, e := &events{}, of(t, membackend.New())
		var dog fairleaderelection.HealthzAdaptor
		c := fairleaderelection.Config{Identity: "a", ReleaseOnCancel: true, Callbacks: got.callbacks("a", 0), WatchDog: &dog}
		c.Callbacks.OnStartedLeading = func(ctx context.Context) {
			token, ok := session.TokenFrom(ctx)
			assert.True(t, ok)
			assert.Positive(t, token)
		}
		stop, ended := run(t, e, c)
		time.Sleep(time.Hour)
		require.True(t, e.IsLeader())
		require.Empty(t, got.list())
		stop()
		require.NoError(t, <-ended)

		assert.False(t, e.IsLeader())
		assert.Equal(t, []string{"a stopped"}, got.list())
	})
}

func TestRunReleasesAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, e := &events{}, of(t, membackend.New())
		c := fairleaderelection.Config{Identity: "a", Callbacks: got.callbacks("a", 0)}
		c.Callbacks.OnStartedLeading = func(context.Context) { panic("broken") }
		assert.PanicsWithValue(t, "broken", func() { _ = fairleaderelection.Run(t.Context(), e, c) })
		assert.False(t, e.IsLeader())
	})
}

func TestRunRefusesWhatCannotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, got := membackend.New(), &events{}
		for _, c := range []fairleaderelection.Config{
			{Callbacks: got.callbacks("a", 0)},
			{Identity: "a", Callbacks: leaderelection.LeaderCallbacks{OnStoppedLeading: func() {}}},
			{Identity: "a", Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}}},
		} {
			require.ErrorIs(t, fairleaderelection.Run(t.Context(), of(t, st), c), session.ErrInvalidOptions)
		}
		require.Empty(t, got.list())

		e := election.New(memtest.OpenLogged(t, st, nil), strings.Repeat("n", 1000))
		c := fairleaderelection.Config{Identity: "a", Callbacks: got.callbacks("a", 0)}
		require.ErrorIs(t, fairleaderelection.Run(t.Context(), e, c), session.ErrInvalidName)
		assert.Equal(t, []string{"a stopped"}, got.list())
	})
}

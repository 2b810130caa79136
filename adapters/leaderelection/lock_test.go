package fairleaderelection_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	fairleaderelection "github.com/fairlock/fairlock/adapters/leaderelection"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// elector is client-go's, over a Lock.
type elector struct {
	*leaderelection.LeaderElector
	lock *fairleaderelection.Lock
	stop context.CancelFunc
	done chan struct{} // closed when Run has returned
}

// period is how often an elector renews and retries.
const period = 2 * time.Second

// elect starts an elector. Its configuration is the one that Kubernetes recommends.
func elect(t *testing.T, e *election.Election, id string, release bool, c leaderelection.LeaderCallbacks) *elector {
	t.Helper()
	l := fairleaderelection.NewLock(e, id)
	le, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: period, ReleaseOnCancel: release, Callbacks: c,
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
	started := &elector{le, l, stop, make(chan struct{})}
	go func() {
		defer close(started.done)
		le.Run(l.Context(ctx))
	}()
	synctest.Wait()
	return started
}

// end ends the run of an elector, and closes its Lock.
func (e *elector) end() error {
	e.stop()
	<-e.done
	return e.lock.Close()
}

func TestAnElectorHandsOverWhenItsLockIsClosed(t *testing.T) {
	for name, release := range map[string]bool{"without ReleaseOnCancel": false, "with ReleaseOnCancel": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, got := membackend.New(), &events{}
				var all []*elector
				for _, id := range []string{"a", "b", "c"} {
					e := elect(t, of(t, st), id, release, got.callbacks(id, 0))
					all = append(all, e)
					require.Equal(t, "a", e.GetLeader())
				}
				time.Sleep(10 * time.Minute)
				all[0].stop()
				<-all[0].done
				time.Sleep(10 * time.Minute)
				require.Equal(t, []string{"a started", "a stopped", "a worked"}, sortedTail(got.list(), 1))
				require.NoError(t, all[0].lock.Close())
				synctest.Wait()
				require.Equal(t, "b started", got.list()[3], "at once")
				time.Sleep(10 * time.Minute)
				require.Equal(t, "b", all[2].GetLeader())
				require.True(t, all[1].IsLeader())
				require.NoError(t, all[1].end())
				synctest.Wait()
				require.NoError(t, all[2].end())
				synctest.Wait()

				assert.Equal(t, "c started", got.list()[6])
				assert.Len(t, got.list(), 9)
			})
		})
	}
}

// sortedTail returns a list of which the elements from a place on may come in either order.
func sortedTail(list []string, from int) []string {
	tail := list[from:]
	if len(tail) == 2 && tail[0] > tail[1] {
		tail[0], tail[1] = tail[1], tail[0]
	}
	return list
}

func TestALossStopsTheElectorBeforeAnotherOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, got := membackend.New(), &events{}
		client := st.NewClient()
		s, err := client.Open(t.Context(), &session.Options{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		ttl := s.Options().TTL
		c := got.callbacks("a", 0)
		c.OnStartedLeading = func(ctx context.Context) {
			got.add("a started")
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), session.ErrLost)
			token, ok := session.TokenFrom(ctx)
			assert.True(t, ok && token > 0, "a resource can refuse it")
			got.add("a worked")
		}
		first := elect(t, election.New(s, "n"), "a", true, c)
		second := elect(t, of(t, st), "b", true, got.callbacks("b", 0))
		time.Sleep(time.Minute)
		require.NoError(t, first.lock.WatchDog().Check(nil))
		client.Cut(fault.Both)
		cut := time.Now()
		<-first.done
		require.Less(t, time.Since(cut), ttl, "its RenewDeadline has not begun")
		synctest.Wait()
		require.Equal(t, []string{"a started", "a stopped", "a worked"}, sortedTail(got.list(), 1))
		time.Sleep(2 * ttl)
		require.Equal(t, "b started", got.list()[3])
		client.Heal()
		require.ErrorIs(t, first.lock.Close(), session.ErrLost)
		require.ErrorIs(t, first.lock.Close(), session.ErrLost)
		require.NoError(t, second.end())
		require.NoError(t, s.Close())
	})
}

func TestTheWatchDogOfALockFailsFromALossToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := membackend.New().NewClient()
		s, err := client.Open(t.Context(), &session.Options{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		l := fairleaderelection.NewLock(election.New(s, "n"), "a")
		ctx := l.Context(t.Context())
		dog := l.WatchDog()
		assert.Equal(t, "leaderElection", dog.Name())
		require.NoError(t, dog.Check(nil))
		_, _, err = l.Get(ctx)
		require.True(t, apierrors.IsNotFound(err), err)
		require.NoError(t, l.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "a"}))
		before := client.Requests()
		require.NoError(t, dog.Check(nil))
		require.Equal(t, before, client.Requests())
		client.Stall()
		time.Sleep(time.Hour)
		require.Error(t, dog.Check(nil))
		require.ErrorIs(t, l.Update(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "a"}), session.ErrLost)
		_, _, err = l.Get(ctx)
		require.ErrorIs(t, err, session.ErrLost)
		client.Resume()
		require.ErrorIs(t, l.Close(), session.ErrLost)
		require.NoError(t, dog.Check(nil))
		require.NoError(t, s.Close())
	})
}

func TestARecordIsOfTheLeaderOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, own := membackend.New(), resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15, LeaderTransitions: 7}
		leader, waits := fairleaderelection.NewLock(of(t, st), "a"), fairleaderelection.NewLock(of(t, st), "b")
		ctx, other := leader.Context(t.Context()), waits.Context(t.Context())
		require.ErrorIs(t, leader.Create(ctx, own), session.ErrNotLeader, "it has not campaigned")
		_, _, err := leader.Get(ctx)
		require.True(t, apierrors.IsNotFound(err), err)
		require.NoError(t, leader.Create(ctx, own))
		require.NoError(t, leader.Update(ctx, own))
		got, _, err := leader.Get(ctx)
		require.NoError(t, err)
		require.Equal(t, own, *got)

		seen, raw, err := waits.Get(other)
		require.NoError(t, err)
		require.NotEmpty(t, raw)
		require.Equal(t, "a", seen.HolderIdentity)
		for _, write := range []func(context.Context, resourcelock.LeaderElectionRecord) error{waits.Create, waits.Update} {
			require.ErrorIs(t, write(other, resourcelock.LeaderElectionRecord{HolderIdentity: "b"}), session.ErrNotLeader)
		}
		require.NoError(t, leader.Close())
		require.Error(t, leader.Update(ctx, own))
		_, _, err = waits.Get(other)
		require.True(t, apierrors.IsNotFound(err), err)
		require.NoError(t, waits.Close())
		assert.Empty(t, memtest.Entries(st, "n"))
	})
}

func TestWaitingSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, got := membackend.New(), &events{}
		first := elect(t, of(t, st), "a", false, got.callbacks("a", 0))
		client := st.NewClient()
		s, err := client.Open(t.Context(), &session.Options{TTL: 24 * time.Hour})
		require.NoError(t, err)
		second := elect(t, election.New(s, "n"), "b", false, got.callbacks("b", 0))
		time.Sleep(time.Minute)
		before := client.Requests()
		time.Sleep(10 * time.Minute)
		require.Equal(t, before, client.Requests())
		require.NoError(t, first.end())
		synctest.Wait()
		require.True(t, second.IsLeader())
		time.Sleep(time.Minute) // a second after the grant, it is written into the entry
		before = client.Requests()
		time.Sleep(10 * time.Minute)
		require.Equal(t, before, client.Requests(), "a renewal of the elector sends nothing either")
		require.NoError(t, second.end())
		require.NoError(t, s.Close())
	})
}

func TestAnElectorThatGivesUpLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, got := membackend.New(), &events{}
		first := elect(t, of(t, st), "a", true, got.callbacks("a", 0))
		second := elect(t, of(t, st), "b", true, got.callbacks("b", 0))
		require.Len(t, memtest.Entries(st, "n"), 2)
		second.stop()
		<-second.done
		synctest.Wait()
		require.Len(t, memtest.Entries(st, "n"), 1)
		require.NoError(t, second.lock.Close())
		require.NoError(t, second.lock.Close())
		require.NoError(t, first.end())

		assert.NotContains(t, got.list(), "b started")
	})
}

func TestALeadershipThatTheElectorCannotUseIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		l := fairleaderelection.NewLock(of(t, st), "a")
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := l.Get(l.Context(ctx))
		require.True(t, apierrors.IsNotFound(err), err)
		cancel() // before Create
		synctest.Wait()
		require.Error(t, l.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "a"}))
		require.Empty(t, memtest.Entries(st, "n"))
		require.NoError(t, l.Close())

		l = fairleaderelection.NewLock(of(t, st), "a")
		require.NoError(t, l.Close())
		_, _, err = l.Get(l.Context(t.Context()))
		require.Error(t, err)
		assert.Empty(t, memtest.Entries(st, "n"))
	})
}

func TestAnElectorWithAnotherContextNeverLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := of(t, membackend.New())
		l := fairleaderelection.NewLock(e, "a")
		_, _, err := l.Get(fairleaderelection.NewLock(e, "a").Context(t.Context()))
		require.ErrorContains(t, err, "Lock.Context")
		_, _, err = l.Get(t.Context())
		require.ErrorContains(t, err, "Lock.Context")
		require.False(t, apierrors.IsNotFound(err))
		require.ErrorIs(t, l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"}), session.ErrNotLeader)
	})
}

func TestOfTwoElectorsWithOneIdentityOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, got := membackend.New(), &events{}
		first := elect(t, of(t, st), "a", false, got.callbacks("a", 0))
		second := elect(t, of(t, st), "a", false, got.callbacks("another a", 0))
		time.Sleep(time.Hour)
		require.True(t, first.IsLeader())
		require.False(t, second.IsLeader())
		require.NoError(t, first.end())
		synctest.Wait()
		require.True(t, second.IsLeader())
		require.NoError(t, second.end())
	})
}

func TestACampaignThatCannotSucceedStopsTheElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := &events{}
		e := elect(t, election.New(memtest.OpenLogged(t, membackend.New(), nil), strings.Repeat("n", 1000)), "a", false, got.callbacks("a", 0))
		<-e.done
		require.ErrorIs(t, e.lock.Close(), session.ErrInvalidName)
		assert.Equal(t, []string{"a stopped"}, got.list())
	})
}

// An election is one queue, however its candidates campaign.
func TestRunAndElectorsShareAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, got := membackend.New(), &events{}
		first := elect(t, of(t, st), "a", false, got.callbacks("a", 0))
		stop, ended := run(t, of(t, st), fairleaderelection.Config{Identity: "b", ReleaseOnCancel: true, Callbacks: got.callbacks("b", 0)})
		third := elect(t, of(t, st), "c", false, got.callbacks("c", 0))
		require.NoError(t, first.end())
		time.Sleep(3 * period)
		require.Equal(t, "b", third.GetLeader())
		stop()
		require.NoError(t, <-ended)
		time.Sleep(3 * period)
		require.True(t, third.IsLeader())
		require.NoError(t, third.end())
	})
}

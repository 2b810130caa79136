package election_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// leads runs an election until it leads, and then until its context ends or stop is called, which also
// waits.
func leads(t *testing.T, e *election.Election, fn func(context.Context, *session.Hold)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := e.Run(ctx, "v", func(ctx context.Context, h *session.Hold) error {
			fn(ctx, h)
			<-ctx.Done()
			return nil
		})
		assert.ErrorIs(t, err, context.Canceled)
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-done
	}
}

func nothing(context.Context, *session.Hold) {}

// generations returns those of the entries in the queue.
func generations(st *membackend.Store) (all []int64) {
	for _, e := range memtest.Entries(st, "n") {
		all = append(all, owner.MetaOf(&e).Generation)
	}
	return all
}

func numbered(t *testing.T, st *membackend.Store, generation int64) *election.Election {
	t.Helper()
	return election.NewWith(open(t, st.NewClient(), nil), "n", election.Options{Generation: generation})
}

// A new version whose processes end soon after their start is next for as long as its session lives.
func TestAVersionThatEndsAtItsStartNeverLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		var handed atomic.Int64
		stop := leads(t, numbered(t, st, 1), func(ctx context.Context, _ *session.Hold) {
			context.AfterFunc(ctx, func() {
				if errors.Is(context.Cause(ctx), election.ErrHandOver) {
					handed.Add(1)
				}
			})
		})
		for range 5 {
			c := st.NewClient()
			s, err := c.Open(t.Context(), nil)
			require.NoError(t, err)
			broken := election.NewWith(s, "n", election.Options{Generation: 2})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = broken.Campaign(ctx, "v")
			}()
			time.Sleep(time.Second)
			require.Equal(t, []int64{1, 2}, generations(st))
			c.Cut(fault.Both) // as a process that is killed
			cancel()
			<-done
			time.Sleep(20 * time.Second)
			require.Equal(t, []int64{1}, generations(st), "its session has ended")
			_ = s.Close()
		}
		assert.Zero(t, handed.Load())

		stopNew := leads(t, numbered(t, st, 2), nothing)
		time.Sleep(18 * time.Second)
		require.Equal(t, []int64{1, 2}, generations(st))
		time.Sleep(time.Second)
		assert.Equal(t, []int64{2, 1}, generations(st), "a quarter more than the TTL")
		assert.EqualValues(t, 1, handed.Load())
		stop()
		stopNew()
	})
}

func TestAHandOverTakesTenSecondsAndNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		open := func(generation int64) *election.Election {
			return election.NewWith(open(t, st.NewClient(), &session.Options{TTL: 4 * time.Second}), "n", election.Options{Generation: generation})
		}
		stop := leads(t, open(1), nothing)
		stopNew := leads(t, open(2), nothing)
		time.Sleep(9900 * time.Millisecond)
		require.Equal(t, []int64{1, 2}, generations(st))
		time.Sleep(200 * time.Millisecond)
		assert.Equal(t, []int64{2, 1}, generations(st))
		stop()
		stopNew()
	})
}

// A newer candidate is next for nine seconds, again and again.
func TestOnlyACandidateThatStaysNextIsHandedTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		e := election.NewWith(open(t, st.NewClient(), nil), "n", election.Options{Generation: 1, Settle: 10 * time.Second})
		stop := leads(t, e, func(ctx context.Context, _ *session.Hold) {
			context.AfterFunc(ctx, func() { assert.NotErrorIs(t, context.Cause(ctx), election.ErrHandOver) })
		})
		newer := numbered(t, st, 2)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
			_, err := newer.Campaign(ctx, "v")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
			time.Sleep(time.Second)
		}
		assert.Equal(t, []int64{1}, generations(st))
		stop()
	})
}

func TestStepsAreASecondApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		stop := leads(t, numbered(t, st, 1), nothing)
		stopOld := leads(t, numbered(t, st, 1), nothing)
		stopNew := leads(t, numbered(t, st, 2), nothing)
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, []int64{1, 2, 1}, generations(st))
		stopNew()
		stopNew = leads(t, numbered(t, st, 2), nothing)
		time.Sleep(800 * time.Millisecond)
		require.Equal(t, []int64{1, 1, 2}, generations(st), "not yet")
		time.Sleep(200 * time.Millisecond)
		assert.Equal(t, []int64{1, 2, 1}, generations(st))
		stopNew()
		stopOld()
		stop()
	})
}

func TestACandidateIsNextWhenTheLeaderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		stops := []func(){}
		for _, generation := range []int64{1, 0, 1, 2} { // the second never steps
			stops = append(stops, leads(t, numbered(t, st, generation), nothing))
		}
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, []int64{1, 0, 1, 2}, generations(st))
		stops[0]()
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, []int64{0, 2, 1}, generations(st))
		for _, stop := range stops[1:] {
			stop()
		}
	})
}

// The requests by which the candidate joins again are lost for longer than a granted candidate waits.
func TestACandidateThatCannotStepKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		stop := leads(t, numbered(t, st, 1), nothing)
		c := st.NewClient()
		e := election.NewWith(open(t, c, nil), "n", election.Options{Generation: 1})
		led := make(chan time.Time, 1)
		stopOld := leads(t, e, func(context.Context, *session.Hold) { led <- time.Now() })
		for range 20 {
			c.Inject(fault.Join, fault.LostRequest)
		}
		stopNew := leads(t, numbered(t, st, 2), nothing)
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, []int64{1, 1, 2}, generations(st))
		stop()
		ended := time.Now()
		assert.Equal(t, 5*time.Second, (<-led).Sub(ended))
		assert.True(t, e.IsLeader())
		assert.Equal(t, []int64{1, 2}, generations(st))
		stopOld()
		stopNew()
	})
}

func TestAGenerationBelowZeroIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		_, err := numbered(t, st, -1).Campaign(t.Context(), "v")
		require.ErrorIs(t, err, session.ErrInvalidOptions)
		require.EqualError(t, err, `election: campaign for "n": invalid options: generation -1 is below 0`)
		_, err = election.NewWith(nil, "n", election.Options{Generation: 1}).Campaign(t.Context(), "v")
		require.Error(t, err)
	})
}

// Of ten candidates only the leader and the next one read when others come and go behind them.
func TestOnlyTheFirstTwoCandidatesReadWhatIsBehindThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		var clients []*membackend.Client
		var stops []func()
		join := func(generation int64) {
			c := st.NewClient()
			clients = append(clients, c)
			stops = append(stops, leads(t, election.NewWith(open(t, c, nil), "n", election.Options{Generation: generation}), nothing))
		}
		for range 10 {
			join(2)
		}
		time.Sleep(3 * time.Second) // the time of the grant is recorded
		before := make([]int, 10)
		for i, c := range clients {
			before[i] = c.Requests()
		}
		for range 5 {
			join(1)
			time.Sleep(100 * time.Millisecond)
			stops[len(stops)-1]()
			stops = stops[:len(stops)-1]
			time.Sleep(100 * time.Millisecond)
		}
		for i, c := range clients[:10] {
			sent := c.Requests() - before[i]
			if i < 2 {
				assert.Equal(t, 10, sent, "candidate %d", i)
			} else {
				assert.Zero(t, sent, "candidate %d", i)
			}
		}
		for _, stop := range stops {
			stop()
		}
	})
}

package fairgoose_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	fairgoose "github.com/fairlock/fairlock/adapters/goose"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "goose/orders"

// work is what the migrations of a test do, which are three.
type work struct {
	mu       sync.Mutex
	applied  []int64
	inside   int // how many migrations run
	together int // the most of them at any time

	during func(ctx context.Context, version int64) error // is called in each; nil for none
}

func (w *work) run(ctx context.Context, version int64) error {
	w.mu.Lock()
	w.inside++
	w.together = max(w.together, w.inside)
	w.mu.Unlock()
	time.Sleep(time.Second)
	var err error
	if w.during != nil {
		err = w.during(ctx, version)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inside--
	if err == nil {
		w.applied = append(w.applied, version)
	}
	return err
}

// provider returns a Provider on the database of the test. The migrations have no transaction.
func provider(t *testing.T, d *data, w *work, o ...goose.ProviderOption) *goose.Provider {
	t.Helper()
	var all []*goose.Migration
	for version := range int64(3) {
		all = append(all, goose.NewGoMigration(version+1, &goose.GoFunc{
			RunDB: func(ctx context.Context, _ *sql.DB) error { return w.run(ctx, version+1) },
		}, nil))
	}
	p, closeDB, err := d.provider(all, o...)
	require.NoError(t, err)
	t.Cleanup(closeDB)
	return p
}

// locker returns a Locker in a session of its own.
func locker(t *testing.T, st *membackend.Store) *fairgoose.Locker {
	t.Helper()
	return fairgoose.NewLocker(mutex.New(memtest.OpenLogged(t, st, nil), name))
}

// lose deletes the first entry of the queue, as an operator may do.
func lose(t *testing.T, st *membackend.Store) {
	t.Helper()
	require.True(t, st.Delete(name, memtest.Entries(st, name)[0].Key))
	synctest.Wait()
}

func TestReplicasApplyEachMigrationOnce(t *testing.T) {
	for option, with := range map[string]func(*fairgoose.Locker) goose.ProviderOption{
		"WithLocker":        func(l *fairgoose.Locker) goose.ProviderOption { return goose.WithLocker(l) },
		"WithSessionLocker": func(l *fairgoose.Locker) goose.ProviderOption { return goose.WithSessionLocker(l) },
	} {
		t.Run(option, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, d, w := membackend.New(), &data{}, &work{}
				var replicas sync.WaitGroup
				for range 20 {
					p := provider(t, d, w, with(locker(t, st)))
					replicas.Go(func() {
						_, err := p.Up(t.Context())
						assert.NoError(t, err)
					})
				}
				replicas.Wait()

				assert.Equal(t, []int64{1, 2, 3}, w.applied)
				assert.Equal(t, 1, w.together)
				assert.Empty(t, memtest.Entries(st, name))
			})
		})
	}
}

func TestNothingPendingNeedsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, d := membackend.New(), &data{}
		p := provider(t, d, &work{}, goose.WithLocker(locker(t, st)))
		_, err := p.Up(t.Context())
		require.NoError(t, err)
		h, err := mutex.New(memtest.OpenLogged(t, st, nil), name).Lock(t.Context())
		require.NoError(t, err)

		_, err = p.Up(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock())
	})
}

func TestALossEndsTheContextOfTheMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, d, w := membackend.New(), &data{}, &work{}
		l := locker(t, st)
		p := provider(t, d, w, goose.WithLocker(l))
		w.during = func(ctx context.Context, version int64) error {
			h, ok := l.Hold()
			assert.True(t, ok)
			assert.Positive(t, h.Token())
			if version == 2 {
				lose(t, st)
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return ctx.Err()
		}
		ctx, cancel := l.Context(t.Context())
		defer cancel()
		_, err := p.Up(ctx)

		require.ErrorIs(t, err, session.ErrLost)
		require.ErrorIs(t, context.Cause(ctx), session.ErrLost)
		assert.Equal(t, []int64{1}, w.applied)

		w.during = nil
		_, err = provider(t, d, w, goose.WithLocker(locker(t, st))).Up(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []int64{1, 2, 3}, w.applied)
	})
}

func TestWithoutItsContextALossIsReportedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, d, w := membackend.New(), &data{}, &work{}
		p := provider(t, d, w, goose.WithLocker(locker(t, st)))
		w.during = func(_ context.Context, version int64) error {
			if version == 2 {
				lose(t, st)
			}
			return nil
		}
		_, err := p.Up(t.Context())

		require.ErrorIs(t, err, session.ErrLost)
		assert.Equal(t, []int64{1, 2, 3}, w.applied)
	})
}

func TestAContextServesSeveralCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, d, w := membackend.New(), &data{}, &work{}
		l := locker(t, st)
		p := provider(t, d, w, goose.WithLocker(l))
		ctx, cancel := l.Context(t.Context())
		for range 3 {
			_, err := p.UpByOne(ctx)
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, ctx.Err())
		}
		cancel()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		assert.Equal(t, []int64{1, 2, 3}, w.applied)
	})
}

func TestAFailedMigrationReleasesTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, d, w := membackend.New(), &data{}, &work{}
		failed := errors.New("failed")
		w.during = func(context.Context, int64) error { return failed }
		_, err := provider(t, d, w, goose.WithLocker(locker(t, st))).Up(t.Context())

		require.ErrorIs(t, err, failed)
		assert.Empty(t, memtest.Entries(st, name))
	})
}

func TestTheWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		first, second := locker(t, st), locker(t, st)
		require.NoError(t, first.Lock(t.Context(), nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()

		require.ErrorIs(t, second.SessionLock(ctx, nil), context.DeadlineExceeded)
		require.ErrorIs(t, second.SessionUnlock(ctx, nil), session.ErrUnlocked)
		require.NoError(t, first.Unlock(t.Context(), nil))
		_, held := first.Hold()
		assert.False(t, held)
	})
}

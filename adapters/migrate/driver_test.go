package fairmigrate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	hosttest "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	fairmigrate "github.com/fairlock/fairlock/adapters/migrate"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "migrate/orders"

// data is a database in memory.
type data struct {
	mu       sync.Mutex
	version  int
	dirty    bool
	applied  []int             // the versions whose Run has ended
	inside   int               // how many calls of Run there are
	together int               // the most of them at any time
	run      func(version int) // is called in each Run; nil for none

	takes time.Duration // how long Run takes
	own   chan struct{} // the lock of the driver: full while it is held
}

func newData() *data {
	return &data{version: database.NilVersion, takes: time.Second, own: make(chan struct{}, 1)}
}

// state returns what others see.
func (d *data) state() (version int, dirty bool, applied []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version, d.dirty, append([]int(nil), d.applied...)
}

// conn is one driver of the database.
type conn struct{ *data }

func (c conn) Open(string) (database.Driver, error) { return conn{c.data}, nil }
func (c conn) Close() error                         { return nil }

func (c conn) Lock() error {
	c.own <- struct{}{}
	return nil
}

func (c conn) Unlock() error {
	<-c.own
	return nil
}

func (c conn) Run(migration io.Reader) error {
	if _, err := io.ReadAll(migration); err != nil {
		return err
	}
	c.mu.Lock()
	c.inside++
	c.together = max(c.together, c.inside)
	version, run := c.version, c.run
	c.mu.Unlock()
	time.Sleep(c.takes)
	if run != nil {
		run(version)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside--
	c.applied = append(c.applied, version)
	return nil
}

func (c conn) SetVersion(version int, dirty bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.dirty = version, dirty
	return nil
}

func (c conn) Version() (version int, dirty bool, err error) {
	version, dirty, _ = c.state()
	return version, dirty, nil
}

func (c conn) Drop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version, c.dirty, c.applied = database.NilVersion, false, nil
	return nil
}

// files are three migrations. They are empty: Migrate reads ahead, and when it stops before the last
// one, the goroutines that have something to give never end.
var files = fstest.MapFS{"1_one.up.sql": {}, "2_two.up.sql": {}, "3_three.up.sql": {}}

// driver returns a Driver in a session of its own.
func driver(t *testing.T, ctx context.Context, st *membackend.Store, d *data, o *fairmigrate.Options) *fairmigrate.Driver { //nolint:revive // t comes first in tests
	t.Helper()
	return fairmigrate.NewDriver(ctx, conn{d}, mutex.New(memtest.OpenLogged(t, st, nil), name), o)
}

// migrator returns a Migrate on the driver.
func migrator(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	source, err := iofs.New(files, ".")
	require.NoError(t, err)
	m, err := migrate.NewWithInstance("iofs", source, "memory", d)
	require.NoError(t, err)
	return m
}

// lose deletes the first entry of the queue, as an operator may do.
func lose(t *testing.T, st *membackend.Store) {
	t.Helper()
	require.True(t, st.Delete(name, memtest.Entries(st, name)[0].Key))
	synctest.Wait()
}

func TestReplicasApplyEachMigrationOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, d := membackend.New(), newData()
		var replicas sync.WaitGroup
		for range 20 {
			m := migrator(t, driver(t, t.Context(), st, d, nil))
			replicas.Go(func() {
				err := m.Up()
				if !errors.Is(err, migrate.ErrNoChange) {
					assert.NoError(t, err)
				}
			})
		}
		replicas.Wait()

		version, dirty, applied := d.state()
		assert.Equal(t, 3, version)
		assert.False(t, dirty)
		assert.Equal(t, []int{1, 2, 3}, applied)
		assert.Equal(t, 1, d.together)
		assert.Empty(t, memtest.Entries(st, name))
	})
}

func TestALossStopsBetweenTwoMigrations(t *testing.T) {
	for _, c := range []struct {
		driverLock, dirty bool
	}{
		{driverLock: false, dirty: true},
		{driverLock: true, dirty: false},
	} {
		t.Run(fmt.Sprintf("with the lock of the driver: %v", c.driverLock), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, d := membackend.New(), newData()
				m := migrator(t, driver(t, t.Context(), st, d, &fairmigrate.Options{DriverLock: c.driverLock}))
				d.run = func(version int) {
					if version == 2 {
						lose(t, st)
					}
				}

				require.ErrorIs(t, m.Up(), session.ErrLost)
				version, dirty, applied := d.state()
				assert.Equal(t, 2, version)
				assert.Equal(t, c.dirty, dirty)
				assert.Equal(t, []int{1, 2}, applied)
			})
		})
	}
}

func TestALossDuringAMigrationLeavesOthersOut(t *testing.T) {
	for _, driverLock := range []bool{false, true} {
		t.Run(fmt.Sprintf("with the lock of the driver: %v", driverLock), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, d := membackend.New(), newData()
				o := &fairmigrate.Options{DriverLock: driverLock}
				first, second := migrator(t, driver(t, t.Context(), st, d, o)), migrator(t, driver(t, t.Context(), st, d, o))
				next := make(chan error, 1)
				d.run = func(version int) {
					if version == 2 {
						lose(t, st)
						go func() { next <- second.Up() }()
						time.Sleep(5 * time.Second)
					}
				}
				require.ErrorIs(t, first.Up(), session.ErrLost)
				err := <-next

				_, _, applied := d.state()
				assert.Equal(t, 1, d.together)
				if driverLock { // it has waited, and the first has ended the migration
					require.NoError(t, err)
					assert.Equal(t, []int{1, 2, 3}, applied)
					return
				}
				require.ErrorAs(t, err, new(migrate.ErrDirty))
				assert.Equal(t, []int{1, 2}, applied)

				d.run = nil
				repair := migrator(t, driver(t, t.Context(), st, d, o))
				require.NoError(t, repair.Force(2)) // it was found to be applied
				require.NoError(t, repair.Up())
				_, _, applied = d.state()
				assert.Equal(t, []int{1, 2, 3}, applied)
			})
		})
	}
}

func TestForceAndDropAfterALossChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, d := membackend.New(), newData()
		driver := driver(t, t.Context(), st, d, &fairmigrate.Options{DriverLock: true})
		require.NoError(t, driver.Lock())
		time.Sleep(time.Second) // until the session watches the entry
		lose(t, st)

		require.ErrorIs(t, driver.SetVersion(7, false), session.ErrLost)
		require.ErrorIs(t, driver.SetVersion(7, true), session.ErrLost)
		require.ErrorIs(t, driver.Drop(), session.ErrLost)
		require.ErrorIs(t, driver.Unlock(), session.ErrLost)
		version, _, _ := d.state()
		assert.Equal(t, database.NilVersion, version)
	})
}

func TestTheEndOfTheContextStopsBetweenTwoMigrations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, d := membackend.New(), newData()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		stopped := errors.New("the program ends")
		d.run = func(version int) {
			if version == 2 {
				cancel(stopped)
			}
		}

		require.ErrorIs(t, migrator(t, driver(t, ctx, st, d, nil)).Up(), stopped)
		version, dirty, applied := d.state()
		assert.Equal(t, 2, version)
		assert.False(t, dirty)
		assert.Equal(t, []int{1, 2}, applied)
		assert.Empty(t, memtest.Entries(st, name))
		require.NoError(t, migrator(t, driver(t, t.Context(), st, d, nil)).Up())
	})
}

func TestAWaitThatMigrateGivesUpLeavesNothingBehind(t *testing.T) {
	for _, c := range []struct {
		name string
		o    *fairmigrate.Options
	}{
		{"by default", nil},
		{"with options", &fairmigrate.Options{LockTimeout: 3 * time.Second}},
		{"in the driver", &fairmigrate.Options{DriverLock: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, d := membackend.New(), newData()
				m := migrator(t, driver(t, t.Context(), st, d, c.o))
				if c.o != nil && c.o.LockTimeout > 0 {
					m.LockTimeout = c.o.LockTimeout
				}
				free := func() { <-d.own }
				if c.o != nil && c.o.DriverLock {
					d.own <- struct{}{}
				} else {
					h, err := mutex.New(memtest.OpenLogged(t, st, nil), name).Lock(t.Context())
					require.NoError(t, err)
					free = func() { assert.NoError(t, h.Unlock()) }
				}
				err := m.Up()
				require.ErrorIs(t, err, migrate.ErrLockTimeout)
				require.ErrorIs(t, err, context.DeadlineExceeded, "ours, which comes before that of Migrate")
				time.Sleep(time.Minute)
				free()
				synctest.Wait()
				assert.Empty(t, memtest.Entries(st, name))
				assert.Empty(t, d.own)

				require.NoError(t, m.Up(), "again")
			})
		})
	}
}

func TestALossEndsTheWaitForTheLockOfTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, d := membackend.New(), newData()
		d.own <- struct{}{}
		m := migrator(t, driver(t, t.Context(), st, d, &fairmigrate.Options{DriverLock: true}))
		done := make(chan error, 1)
		go func() { done <- m.Up() }()
		synctest.Wait()
		lose(t, st)

		require.ErrorIs(t, <-done, session.ErrLost)
		<-d.own
		synctest.Wait()
		assert.Empty(t, d.own)
	})
}

func TestCloseReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, d := membackend.New(), newData()
		first, second := driver(t, t.Context(), st, d, nil), driver(t, t.Context(), st, d, nil)
		require.NoError(t, first.Lock())
		waits := make(chan error, 1)
		go func() { waits <- second.Lock() }()
		synctest.Wait()
		require.Len(t, memtest.Entries(st, name), 2)

		require.NoError(t, second.Close())
		require.ErrorIs(t, <-waits, context.Canceled)
		require.NoError(t, first.Close())
		assert.Empty(t, memtest.Entries(st, name))
	})
}

func TestErrorsAreThoseOfTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := driver(t, t.Context(), membackend.New(), newData(), nil)
		require.ErrorIs(t, d.Unlock(), database.ErrNotLocked)
		require.NoError(t, d.Lock())
		require.ErrorIs(t, d.Lock(), database.ErrLocked)
		require.NoError(t, d.Unlock())
	})
}

func TestADriverPassesTheTestsOfTheHost(t *testing.T) {
	d := newData()
	d.takes = 0
	other, err := driver(t, t.Context(), membackend.New(), d, nil).Open("memory://")
	require.NoError(t, err)
	hosttest.Test(t, other, []byte("one"))
}

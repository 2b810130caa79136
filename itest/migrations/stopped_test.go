package migrations

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/pgtest"
)

// A replica is stopped with SIGSTOP in a step until its lock has gone to another one, and goes on
// then. It applies no other migration, and its error reports the loss.
func TestAReplicaThatWasStoppedAppliesNothingMore(t *testing.T) {
	tier.Seldom(t)
	server := pgtest.New(t, nil)
	at := locks(t, "etcd", server)
	for _, c := range []struct {
		name, data string
		job
		index  bool // of the versions, which refuses what no context can stop
		blocks bool // the next replica waits for its end, for the driver's own lock
		dirty  bool // the database is, and no replica goes on
		atStop []int
	}{
		{name: "goose in Do, heeds its context", data: "a", job: job{Host: "goose in Do", Stops: between, Heeds: true}, atStop: []int{1}},
		{name: "goose in Do, is late", data: "b", job: job{Host: "goose in Do", Stops: inside}, index: true, atStop: []int{1, 2}},
		{name: "goose with a Locker, heeds its context", data: "c", job: job{Host: "goose with a Locker", Stops: between, Heeds: true}, atStop: []int{1}},
		{name: "goose with a Locker, is late", data: "d", job: job{Host: "goose with a Locker", Stops: inside}, index: true, atStop: []int{1, 2}},
		{name: "migrate, between two migrations", data: "e", job: job{Host: "migrate", Stops: between}, atStop: []int{1}},
		{name: "migrate, in a migration", data: "f", job: job{Host: "migrate", Stops: inside}, dirty: true, atStop: []int{1, 2, 3}},
		{name: "migrate with the driver lock, between two migrations", data: "g", job: job{Host: "migrate with the driver lock", Stops: between}, blocks: true, atStop: []int{1}},
		{name: "migrate with the driver lock, in a migration", data: "h", job: job{Host: "migrate with the driver lock", Stops: inside}, blocks: true, atStop: []int{1, 2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, db := databaseFor(t, server, c.data)
			if c.index {
				_, _, err := providerWith(t, db, nil).GetVersions(hang.Context(t)) // creates the table of versions
				require.NoError(t, err)
				_, err = db.ExecContext(hang.Context(t), "CREATE UNIQUE INDEX ON goose_db_version (version_id)")
				require.NoError(t, err)
			}
			j := c.job
			j.Store, j.Locks, j.Data, j.TTL = "etcd", at, data, 2*time.Second
			stopped := begun(t, 1, j)[0]
			writes(t, stopped, stops)
			require.NoError(t, stopped.Pause())
			assert.Equal(t, c.atStop, applied(t, db))

			goesOn(t, j)
			next := j
			next.Stops = ""
			foundDirty := 0
			if !c.blocks {
				_, foundDirty = replicas(t, 1, next)
			}
			require.NoError(t, stopped.Resume())
			require.Error(t, stopped.Wait())
			assert.Contains(t, stopped.Stderr(), `lock "migrations"`)
			assert.Contains(t, stopped.Stderr(), "lost")
			assert.NotContains(t, stopped.Stderr(), neverEnded)
			if c.blocks {
				assert.Equal(t, c.atStop, applied(t, db))
				_, foundDirty = replicas(t, 1, next)
			}

			if c.dirty {
				assert.Equal(t, 1, foundDirty)
				assert.Equal(t, c.atStop, applied(t, db))
				return
			}
			assert.Zero(t, foundDirty)
			assertEachOnce(t, db)
		})
	}
}

// goesOn waits until the lock goes to another session, which releases it.
func goesOn(t *testing.T, j job) {
	t.Helper()
	r := &running{job: j}
	require.NoError(t, r.open(t.Context()))
	defer func() {
		assert.NoError(t, r.db.Close())
		assert.NoError(t, r.s.Close())
	}()
	h, err := r.lock().Lock(hang.Context(t))
	require.NoError(t, err)
	require.NoError(t, h.Unlock())
}

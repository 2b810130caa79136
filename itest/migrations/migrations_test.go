package migrations

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
)

// locks returns where the locks are: on an etcd that it starts, or on the server.
func locks(t *testing.T, store string, s *pgtest.Server) string {
	t.Helper()
	if store == "etcd" {
		return etcdtest.New(t, nil).Endpoints()[0]
	}
	require.NoError(t, pgbackend.Apply(t.Context(), s.Conn(t), "", 0))
	return s.URL()
}

// databaseFor returns the name of a new database, and connections to it. At each of the steps one
// replica dies.
func databaseFor(t *testing.T, s *pgtest.Server, name string, dies ...string) (string, *sql.DB) {
	t.Helper()
	require.NoError(t, s.Exec(hang.Context(t), "CREATE DATABASE "+name))
	u, err := url.Parse(s.URL())
	require.NoError(t, err)
	u.Path = name
	db, err := sql.Open("pgx", u.String())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	_, err = db.ExecContext(hang.Context(t), "CREATE TABLE applied (version int); CREATE TABLE deaths (step text PRIMARY KEY, pid int)")
	require.NoError(t, err)
	mayDie(t, db, dies...)
	return u.String(), db
}

// mayDie makes one more replica die at each of the steps.
func mayDie(t *testing.T, db *sql.DB, steps ...string) {
	t.Helper()
	for _, step := range steps {
		_, err := db.ExecContext(hang.Context(t), "INSERT INTO deaths VALUES ($1, NULL)", step)
		require.NoError(t, err)
	}
}

// replicas migrate at once, and end. It returns how many were killed, and how many have found a
// dirty database. All others succeed, and log nothing.
func replicas(t *testing.T, n int, j job) (killed, foundDirty int) {
	t.Helper()
	return ended(t, begun(t, n, j))
}

// begun returns replicas that migrate.
func begun(t *testing.T, n int, j job) (all []*process.Process) {
	t.Helper()
	text, err := json.Marshal(j)
	require.NoError(t, err)
	for range n {
		cmd, err := process.Self(t.Context(), env, string(text))
		require.NoError(t, err)
		p := process.StartPiped(cmd)
		t.Cleanup(p.Halt)
		all = append(all, p)
	}
	for _, p := range all {
		writes(t, p, "ready")
	}
	for _, p := range all {
		p.CloseInput()
	}
	return all
}

// writes waits for the next line of a replica.
func writes(t *testing.T, p *process.Process, line string) {
	t.Helper()
	got, err := bufio.NewReader(p).ReadString('\n')
	require.NoError(t, err, "%s", p.Stderr())
	require.Equal(t, line+"\n", got)
}

// ended waits for replicas, and counts as replicas does.
func ended(t *testing.T, all []*process.Process) (killed, foundDirty int) {
	t.Helper()
	for _, p := range all {
		err := p.Wait()
		switch {
		case process.Killed(err):
			killed++
		case err != nil && strings.Contains(err.Error(), fmt.Sprintf("exit status %d", dirty)):
			foundDirty++
		default:
			assert.NoError(t, err, "%s", p.Stderr())
		}
	}
	return killed, foundDirty
}

// assertEachOnce checks that each migration has inserted its row once.
func assertEachOnce(t *testing.T, db *sql.DB) {
	t.Helper()
	assert.Equal(t, []int{1, 2, 3, 4, 5}, applied(t, db))
}

// applied returns the rows that the migrations have inserted.
func applied(t *testing.T, db *sql.DB) (all []int) {
	t.Helper()
	rows, err := db.QueryContext(hang.Context(t), "SELECT version FROM applied ORDER BY version")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var v int
		require.NoError(t, rows.Scan(&v))
		all = append(all, v)
	}
	require.NoError(t, rows.Err())
	return all
}

// assertDied checks that a replica has died at each step where one had to.
func assertDied(t *testing.T, db *sql.DB) {
	t.Helper()
	var left int
	require.NoError(t, db.QueryRowContext(hang.Context(t), "SELECT count(*) FROM deaths WHERE pid IS NULL").Scan(&left))
	assert.Zero(t, left)
}

// The replicas are twenty, of which one dies at each step. In make test they are five, and one dies
// with the lock.
func TestReplicasOfGooseApplyEachMigrationOnce(t *testing.T) {
	stores, n, steps := []string{"postgres"}, 5, []string{locked}
	if tier.All() {
		stores, n, steps = []string{"etcd", "postgres"}, 20, []string{before, locked, between, inside, unlocks}
	}
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			server := pgtest.New(t, nil)
			at := locks(t, store, server)
			for i, host := range tier.Pick(t.Name(), "goose in Do", "goose with a Locker") {
				t.Run(host, func(t *testing.T) {
					data, db := databaseFor(t, server, fmt.Sprint("data", i), steps...)
					began := time.Now()
					killed, _ := replicas(t, n, job{Host: host, Store: store, Locks: at, Data: data, TTL: 2 * time.Second})
					t.Logf("%d replicas, of which %d died, took %v", n, killed, time.Since(began).Round(time.Millisecond))

					assert.Equal(t, len(steps), killed)
					assertDied(t, db)
					assertEachOnce(t, db)
				})
			}
		})
	}
}

// golang-migrate leaves the database dirty when a process dies in a migration. The test repairs it
// in the way that the page of the adapter shows.
func TestReplicasOfMigrateApplyEachMigrationOnce(t *testing.T) {
	tier.Seldom(t)
	const n = 20
	for _, store := range []string{"etcd", "postgres"} {
		t.Run(store, func(t *testing.T) {
			server := pgtest.New(t, nil)
			at := locks(t, store, server)
			for i, host := range []string{"migrate", "migrate with the driver lock"} {
				t.Run(host, func(t *testing.T) {
					data, db := databaseFor(t, server, fmt.Sprint("data", i), before, locked, between, inside)
					j := job{Host: host, Store: store, Locks: at, Data: data, TTL: 6 * time.Second}
					began := time.Now()
					killed, foundDirty := replicas(t, n, j)
					assert.Equal(t, 4, killed)
					assert.Equal(t, n-4, foundDirty, "no replica goes on")
					t.Logf("%d replicas, of which %d died, took %v", n, killed, time.Since(began).Round(time.Millisecond))

					repair(t, data, db)
					mayDie(t, db, unlocks)
					killed, foundDirty = replicas(t, n, j)
					assert.Equal(t, 1, killed)
					assert.Zero(t, foundDirty)
					assertDied(t, db)
					assertEachOnce(t, db)
				})
			}
		})
	}
}

// repair records whether the migration was applied in which a process has died, when the server no
// longer runs it.
func repair(t *testing.T, data string, db *sql.DB) {
	t.Helper()
	hang.Until(t, func() bool {
		var sleeping int
		require.NoError(t, db.QueryRowContext(hang.Context(t), asleep).Scan(&sleeping))
		return sleeping == 0
	}, "the server has ended the migration")
	own, err := sql.Open("pgx", data)
	require.NoError(t, err)
	driver, err := pgxmigrate.WithInstance(own, &pgxmigrate.Config{})
	require.NoError(t, err)
	version, isDirty, err := driver.Version()
	require.NoError(t, err)
	require.True(t, isDirty)
	rows := applied(t, db)
	t.Logf("version %d is dirty; applied are %v", version, rows)
	require.NoError(t, driver.SetVersion(rows[len(rows)-1], false))
	require.NoError(t, driver.Close())
}

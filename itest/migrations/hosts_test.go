package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	fairgoose "github.com/fairlock/fairlock/adapters/goose"
	fairmigrate "github.com/fairlock/fairlock/adapters/migrate"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session"
)

// versions is how many migrations there are. Each inserts a row with its version.
const versions = 5

// errDirty is the error of a replica that must not go on before a repair.
var errDirty = errors.New("dirty")

// hosts migrate the database in a replica.
var hosts = map[string]func(context.Context, *running) error{
	"goose in Do":                  inDo,
	"goose with a Locker":          withLocker,
	"migrate":                      func(ctx context.Context, r *running) error { return r.migrate(ctx, false) },
	"migrate with the driver lock": func(ctx context.Context, r *running) error { return r.migrate(ctx, true) },
}

// insert is the statement of a migration.
func insert(version int) string { return fmt.Sprintf("INSERT INTO applied VALUES (%d)", version) }

// inDo is what the page of the adapter has first.
func inDo(ctx context.Context, r *running) error {
	p, err := r.provider()
	if err != nil {
		return err
	}
	return r.lock().Do(ctx, func(ctx context.Context, _ *session.Hold) error {
		if err := r.step(ctx, locked); err != nil {
			return err
		}
		if _, err := p.Up(ctx); err != nil {
			return err
		}
		return r.step(ctx, unlocks)
	})
}

func withLocker(ctx context.Context, r *running) error {
	l := fairgoose.NewLocker(r.lock())
	p, err := r.provider(goose.WithLocker(gooseSteps{l, r}))
	if err != nil {
		return err
	}
	ctx, cancel := l.Context(ctx)
	defer cancel()
	_, err = p.Up(ctx)
	return err
}

// provider returns a Provider of goose. Migrations 2 and 3 are in Go, so that the process can die in
// them.
func (r *running) provider(o ...goose.ProviderOption) (*goose.Provider, error) {
	files := fstest.MapFS{}
	for _, v := range []int{1, 4, versions} {
		files[fmt.Sprintf("%d_insert.sql", v)] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + insert(v) + ";\n")}
	}
	second := func(ctx context.Context, tx *sql.Tx) error {
		if err := r.step(ctx, between); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, insert(2))
		return err
	}
	third := func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, insert(3)); err != nil {
			return err
		}
		return r.step(ctx, inside)
	}
	return goose.NewProvider(goose.DialectPostgres, r.db, files, append(o, goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(
		goose.NewGoMigration(2, &goose.GoFunc{RunTx: second}, nil), goose.NewGoMigration(3, &goose.GoFunc{RunTx: third}, nil),
	))...)
}

// gooseSteps is a Locker of a process that may die.
type gooseSteps struct {
	lock.Locker
	r *running
}

func (s gooseSteps) Lock(ctx context.Context, db *sql.DB) error {
	if err := s.Locker.Lock(ctx, db); err != nil {
		return err
	}
	return s.r.step(ctx, locked)
}

func (s gooseSteps) Unlock(ctx context.Context, db *sql.DB) error {
	return errors.Join(s.r.step(ctx, unlocks), s.Locker.Unlock(ctx, db))
}

func (r *running) migrate(ctx context.Context, driverLock bool) error {
	db, err := sql.Open("pgx", r.Data)
	if err != nil {
		return err
	}
	driver, err := pgxmigrate.WithInstance(db, &pgxmigrate.Config{})
	if err != nil {
		return err
	}
	driver = fairmigrate.NewDriver(ctx, driver, r.lock(), &fairmigrate.Options{LockTimeout: hang.Guard, DriverLock: driverLock})
	files := fstest.MapFS{}
	for v := 1; v <= versions; v++ {
		files[fmt.Sprintf("%d_insert.up.sql", v)] = &fstest.MapFile{Data: []byte(insert(v))}
	}
	source, err := iofs.New(files, ".")
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "pgx5", &migrateSteps{Driver: driver, ctx: ctx, r: r})
	if err != nil {
		return err
	}
	m.LockTimeout = hang.Guard
	err = m.Up()
	_, isDirty := errors.AsType[migrate.ErrDirty](err)
	switch {
	case isDirty:
		err = errDirty
	case errors.Is(err, migrate.ErrNoChange):
		err = nil
	}
	ofSource, ofDriver := m.Close()
	return errors.Join(err, ofSource, ofDriver)
}

// migrateSteps is a driver in a process that may die.
type migrateSteps struct {
	database.Driver
	ctx context.Context
	r   *running
	at  int // the version of the migration that runs
}

func (s *migrateSteps) Version() (version int, isDirty bool, err error) {
	if err := s.r.step(s.ctx, locked); err != nil {
		return 0, false, err
	}
	return s.Driver.Version()
}

func (s *migrateSteps) SetVersion(version int, isDirty bool) error {
	s.at = version
	if version == 2 && isDirty {
		if err := s.r.step(s.ctx, between); err != nil {
			return err
		}
	}
	return s.Driver.SetVersion(version, isDirty)
}

// Run dies while the server runs the migration, which goes on there.
func (s *migrateSteps) Run(migration io.Reader) error {
	if s.at != 3 {
		return s.Driver.Run(migration)
	}
	if s.r.Stops == inside {
		return errors.Join(s.Driver.Run(migration), s.r.stop(s.ctx))
	}
	claimed, err := s.r.claim(s.ctx, inside)
	if err != nil {
		return err
	}
	if !claimed {
		return s.Driver.Run(migration)
	}
	go func() {
		for sleeping := 0; sleeping == 0; time.Sleep(5 * time.Millisecond) {
			err := s.r.db.QueryRowContext(s.ctx, asleep).Scan(&sleeping)
			if err != nil {
				panic(err)
			}
		}
		die()
	}()
	return s.Driver.Run(io.MultiReader(migration, strings.NewReader("; SELECT pg_sleep(2)")))
}

// asleep counts the migrations that the server runs for a process which dies.
const asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"

func (s *migrateSteps) Unlock() error {
	version, isDirty, err := s.Driver.Version()
	if err != nil {
		return err
	}
	if version == versions && !isDirty {
		if err := s.r.step(s.ctx, unlocks); err != nil {
			return err
		}
	}
	return s.Driver.Unlock()
}

package fairgoose_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// data is a database in memory, as far as goose uses it: the table of versions, which has the
// newest first, and connections that can do nothing else.
type data struct {
	mu    sync.Mutex
	table []int64
}

// provider returns a Provider on the database, with a pool of connections of its own.
func (d *data) provider(migrations []*goose.Migration, o ...goose.ProviderOption) (p *goose.Provider, closeDB func(), err error) {
	db := sql.OpenDB(connector{})
	p, err = goose.NewProvider(goose.DialectCustom, db, nil,
		append(o, goose.WithStore(d), goose.WithGoMigrations(migrations...), goose.WithDisableGlobalRegistry(true))...)
	return p, func() { _ = db.Close() }, err
}

// Tablename implements database.Store.
func (d *data) Tablename() string { return "versions" }

// CreateVersionTable implements database.Store.
func (d *data) CreateVersionTable(context.Context, database.DBTxConn) error { return nil }

// Insert implements database.Store. A version that is there is an error, as by a unique index.
func (d *data) Insert(_ context.Context, _ database.DBTxConn, r database.InsertRequest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(d.table, r.Version) {
		return errors.New("the version is there")
	}
	d.table = slices.Insert(d.table, 0, r.Version)
	return nil
}

// Delete implements database.Store.
func (d *data) Delete(_ context.Context, _ database.DBTxConn, version int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table = slices.DeleteFunc(d.table, func(v int64) bool { return v == version })
	return nil
}

// GetMigration implements database.Store.
func (d *data) GetMigration(_ context.Context, _ database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.table, version) {
		return nil, database.ErrVersionNotFound
	}
	return &database.GetMigrationResult{IsApplied: true}, nil
}

// GetLatestVersion implements database.Store.
func (d *data) GetLatestVersion(context.Context, database.DBTxConn) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.table) == 0 {
		return 0, database.ErrVersionNotFound
	}
	return d.table[0], nil
}

// ListMigrations implements database.Store.
func (d *data) ListMigrations(context.Context, database.DBTxConn) (all []*database.ListMigrationsResult, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.table {
		all = append(all, &database.ListMigrationsResult{Version: v, IsApplied: true})
	}
	return all, nil
}

// connector is a driver.Connector and a driver.Driver.
type connector struct{}

func (connector) Connect(context.Context) (driver.Conn, error) { return conn{}, nil }
func (c connector) Driver() driver.Driver                      { return c }
func (connector) Open(string) (driver.Conn, error)             { return conn{}, nil }

// conn is a driver.Conn and a driver.Tx.
type conn struct{}

func (conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (conn) Begin() (driver.Tx, error)           { return conn{}, nil }
func (conn) Commit() error                       { return nil }
func (conn) Rollback() error                     { return nil }
func (conn) Close() error                        { return nil }

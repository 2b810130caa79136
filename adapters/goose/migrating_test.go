package fairgoose_test

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// The code of docs/migrating.md before the change, and what is left of it after.
var (
	_ = func(ctx context.Context, db *sql.DB, files fs.FS) error {
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return err
		}
		provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
		if err != nil {
			return err
		}
		_, err = provider.Up(ctx)
		return err
	}
	_ = func(db *sql.DB, files fs.FS) (*goose.Provider, error) {
		provider, err := goose.NewProvider(goose.DialectPostgres, db, files)
		return provider, err
	}
)

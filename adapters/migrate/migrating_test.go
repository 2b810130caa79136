package fairmigrate_test

import (
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source"
)

// The code of docs/migrating.md before the change.
var _ = func(files source.Driver, driver database.Driver) error {
	m, err := migrate.NewWithInstance("iofs", files, "pgx5", driver)
	if err != nil {
		return err
	}
	err = m.Up()
	return err
}

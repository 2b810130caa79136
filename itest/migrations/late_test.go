package migrations

import (
	"context"
	"database/sql"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/pgtest"
)

// A replica that was stopped in a migration may go on when another one has the lock. Here neither
// has a lock.
func TestTheIndexOfVersionsRefusesALateReplica(t *testing.T) {
	tier.Seldom(t)
	_, db := databaseFor(t, pgtest.New(t, nil), "data")
	began, goes := make(chan struct{}), make(chan struct{})
	late := providerWith(t, db, func() {
		close(began)
		<-goes
	})
	_, _, err := late.GetVersions(hang.Context(t)) // creates the table of versions
	require.NoError(t, err)
	_, err = db.ExecContext(hang.Context(t), "CREATE UNIQUE INDEX ON goose_db_version (version_id)")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := late.Up(t.Context())
		ended <- err
	}()
	hang.Receive(t, began, "it has begun")
	_, err = providerWith(t, db, func() {}).Up(hang.Context(t))
	require.NoError(t, err)
	close(goes)

	require.ErrorContains(t, hang.Receive(t, ended, "it has ended"), "unique")
	assert.Equal(t, []int{1}, applied(t, db))
}

// providerWith returns a Provider of one migration, which calls during before its commit.
func providerWith(t *testing.T, db *sql.DB, during func()) *goose.Provider {
	t.Helper()
	p, err := goose.NewProvider(goose.DialectPostgres, db, nil, goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(
		goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, insert(1)); err != nil {
				return err
			}
			during()
			return nil
		}}, nil),
	))
	require.NoError(t, err)
	return p
}

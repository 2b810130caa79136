package mysqltest_test

import (
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver of these tests
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/mysqltest"
)

func TestMain(m *testing.M) {
	testserver.Parent(orphanParent)
	goleak.VerifyTestMain(m)
}

// connect returns a pool of connections, which is closed when the test ends.
func connect(t *testing.T, s *mysqltest.Server) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() }) // the server may be gone
	return db
}

func execute(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	_, err := db.ExecContext(hang.Context(t), statement)
	require.NoError(t, err)
}

// value returns the one value of a query.
func value[T any](t *testing.T, db *sql.DB, query string) (v T) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(hang.Context(t), query).Scan(&v))
	return v
}

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence/sqlfence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/mysqltest"
	"github.com/fairlock/fairlock/pgtest"
)

// The servers of all tests, started by the first that needs one.
var (
	postgres = sync.OnceValues(func() (*pgtest.Server, error) { return pgtest.Start(context.Background(), nil) })
	mariadb  = sync.OnceValues(func() (*mysqltest.Server, error) { return mysqltest.Start(context.Background(), nil) })
)

// used are what ends the servers that were started.
var used struct {
	sync.Mutex
	close map[string]func() error
}

func TestMain(m *testing.M) {
	used.close = map[string]func() error{}
	code := fencetest.Main(m, open)
	var errs []error
	for _, end := range used.close {
		errs = append(errs, end())
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func closeLater(name string, end func() error) {
	used.Lock()
	defer used.Unlock()
	used.close[name] = end
}

// dsn returns the name of a new database of the driver's store.
func (k kit) dsn(t testing.TB) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "_", "#", "_").Replace(t.Name()))
	name = name[max(0, len(name)-50):]
	switch k.driver {
	case "sqlite":
		path := filepath.Join(fencetest.Dir(t), "data.db")
		options := "_pragma=busy_timeout(60000)&_pragma=synchronous(off)" // the machine does not crash here
		if k.isolation == "immediate" {
			options += "&_txlock=immediate"
		}
		return path + "?" + options
	case "mysql":
		s, err := mariadb()
		require.NoError(t, err)
		closeLater("mariadb", s.Close)
		execute(t, "mysql", s.DSN(), "CREATE DATABASE "+name)
		dsn := s.DSN()[:strings.LastIndex(s.DSN(), "/")+1] + name
		if k.isolation == "text" {
			dsn += "?interpolateParams=true"
		}
		return dsn
	}
	s, err := postgres()
	require.NoError(t, err)
	closeLater("postgres", s.Close)
	require.NoError(t, s.Exec(hang.Context(t), "CREATE DATABASE "+name))
	u, err := url.Parse(s.URL())
	require.NoError(t, err)
	u.Path = name
	if k.isolation == "text" {
		u.RawQuery += "&default_query_exec_mode=simple_protocol"
	}
	return u.String()
}

// prepared returns the name of a new database with the tables of the tests.
func (k kit) prepared(t testing.TB) string {
	t.Helper()
	dsn := k.dsn(t)
	driver := k.driver
	if driver == "native" {
		driver = "pgx"
	}
	execute(t, driver, dsn, sqlfence.Schema(k.dialect()),
		"CREATE TABLE data (name VARCHAR(200) PRIMARY KEY, value TEXT NOT NULL, token BIGINT NOT NULL DEFAULT 0)")
	return dsn
}

// connect returns a pool of connections, which is closed when the test ends.
func connect(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	if driver == "native" {
		driver = "pgx"
	}
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() }) // nothing of it is left
	return db
}

func execute(t testing.TB, driver, dsn string, statements ...string) {
	t.Helper()
	db := connect(t, driver, dsn)
	for _, s := range statements {
		_, err := db.ExecContext(hang.Context(t), s)
		require.NoError(t, err, s)
	}
}

package fairmigrate_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	fairmigrate "github.com/fairlock/fairlock/adapters/migrate"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// up migrates the database of a driver, which is that of pgx5 for example. ctx ends when the
// program shall stop.
func up(ctx context.Context, s *session.Session, files source.Driver, driver database.Driver) error {
	d := fairmigrate.NewDriver(ctx, driver, mutex.New(s, "migrate/orders"), &fairmigrate.Options{
		LockTimeout: time.Hour, DriverLock: true,
	})
	m, err := migrate.NewWithInstance("iofs", files, "pgx5", d)
	if err != nil {
		return err
	}
	m.LockTimeout = time.Hour
	err = m.Up()
	if errors.Is(err, migrate.ErrNoChange) {
		return nil
	}
	return err
}

// Three replicas migrate one database when they start. The driver keeps it in memory here, and has a
// lock of its own that fails if it is held.
func ExampleDriver() {
	store := membackend.New()
	data, err := stub.WithInstance(nil, &stub.Config{})
	if err != nil {
		log.Fatal(err)
	}
	var replicas sync.WaitGroup
	for range 3 {
		s, err := store.Open(context.Background(), nil)
		if err != nil {
			log.Fatal(err)
		}
		defer s.Close()
		files, err := iofs.New(fstest.MapFS{
			"1_customers.up.sql": {Data: []byte("CREATE TABLE customers (id bigint)")},
			"2_orders.up.sql":    {Data: []byte("CREATE TABLE orders (id bigint)")},
		}, ".")
		if err != nil {
			log.Fatal(err)
		}
		replicas.Go(func() {
			if err := up(context.Background(), s, files, data); err != nil {
				log.Fatal(err)
			}
		})
	}
	replicas.Wait()
	for _, migration := range data.(*stub.Stub).MigrationSequence {
		fmt.Println(migration)
	}
	// Output:
	// CREATE TABLE customers (id bigint)
	// CREATE TABLE orders (id bigint)
}

package fairgoose_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"sync"

	"github.com/pressly/goose/v3"

	fairgoose "github.com/fairlock/fairlock/adapters/goose"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// up migrates the database while it holds the lock. The context of the migration ends when the lock
// is lost.
func up(ctx context.Context, s *session.Session, provider *goose.Provider) error {
	return mutex.New(s, "goose/orders").Do(ctx, func(ctx context.Context, _ *session.Hold) error {
		_, err := provider.Up(ctx)
		return err
	})
}

// greetings returns two migrations.
func greetings() []*goose.Migration {
	say := func(what string) *goose.GoFunc {
		return &goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error {
			fmt.Println(what)
			return nil
		}}
	}
	return []*goose.Migration{goose.NewGoMigration(1, say("one"), nil), goose.NewGoMigration(2, say("two"), nil)}
}

// Five replicas migrate one database when they start. This needs no adapter.
func Example_do() {
	store, data := membackend.New(), &data{}
	var replicas sync.WaitGroup
	for range 5 {
		s, err := store.Open(context.Background(), nil)
		if err != nil {
			log.Fatal(err)
		}
		defer s.Close()
		provider, closeDB, err := data.provider(greetings())
		if err != nil {
			log.Fatal(err)
		}
		defer closeDB()
		replicas.Go(func() {
			if err := up(context.Background(), s, provider); err != nil {
				log.Fatal(err)
			}
		})
	}
	replicas.Wait()
	// Output:
	// one
	// two
}

// A Provider with a Locker asks for the lock when something is pending.
func ExampleLocker() {
	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	data := &data{}
	locker := fairgoose.NewLocker(mutex.New(s, "goose/orders"))
	provider, closeDB, err := data.provider(greetings(), goose.WithLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	defer closeDB()
	ctx, cancel := locker.Context(context.Background()) // ends when the lock is lost
	defer cancel()
	results, err := provider.Up(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("applied:", len(results))
	// Output:
	// one
	// two
	// applied: 2
}

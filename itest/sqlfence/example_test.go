package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/sqlfence"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/mysqltest"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/recipes/mutex"
)

// outlived gives work the context of a hold whose lock another holder has now, and has worked with:
// the first has not noticed, because its process was stopped.
func outlived(work func(ctx context.Context) error) {
	store := membackend.New()
	s, err := store.Open(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	m := mutex.New(s, "wallet/ada")
	old, err := m.Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("first holder:", work(old.Context()))
	store.Expire(store.Sessions()[0])
	next, err := m.Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer next.Unlock()
	fmt.Println("second holder:", work(next.Context()))
	err = work(context.WithoutCancel(old.Context()))
	fmt.Println("first holder is stale:", errors.Is(err, fence.ErrStale))
}

// add adds to a balance.
func add(ctx context.Context, db *sql.DB, d sqlfence.Dialect, query string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a Commit it does nothing
	if err := sqlfence.In(tx, d).Touch(ctx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, query, 10, "ada"); err != nil {
		return err
	}
	return tx.Commit()
}

func Example_postgreSQL() {
	ctx := context.Background()
	server, err := pgtest.Start(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	err = server.Exec(ctx, sqlfence.Schema(sqlfence.PostgreSQL)+`;
		CREATE TABLE wallet (id text PRIMARY KEY, balance bigint NOT NULL); INSERT INTO wallet VALUES ('ada', 100)`)
	if err != nil {
		log.Fatal(err)
	}
	conn, err := server.Connect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)

	outlived(func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if err := sqlfence.InPgx(tx).Touch(ctx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `UPDATE wallet SET balance = balance + $1 WHERE id = $2`, 10, "ada")
			return err
		})
	})
	fmt.Println(pgtest.Value[int](ctx, server, `SELECT balance FROM wallet`))
	// Output:
	// first holder: <nil>
	// second holder: <nil>
	// first holder is stale: true
	// 120 <nil>
}

func Example_mariaDB() {
	ctx := context.Background()
	server, err := mysqltest.Start(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	db, err := sql.Open("mysql", server.DSN())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		sqlfence.Schema(sqlfence.MariaDB),
		`CREATE TABLE wallet (id varchar(9) PRIMARY KEY, balance bigint NOT NULL)`, `INSERT INTO wallet VALUES ('ada', 100)`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			log.Fatal(err)
		}
	}

	outlived(func(ctx context.Context) error {
		return add(ctx, db, sqlfence.MariaDB, `UPDATE wallet SET balance = balance + ? WHERE id = ?`)
	})
	var balance int
	fmt.Println(db.QueryRowContext(ctx, `SELECT balance FROM wallet`).Scan(&balance), balance)
	// Output:
	// first holder: <nil>
	// second holder: <nil>
	// first holder is stale: true
	// <nil> 120
}

func Example_sqlite() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sqlfence-*")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // nothing depends on it
	db, err := sql.Open("sqlite", filepath.Join(dir, "app.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, sqlfence.Schema(sqlfence.SQLite)+`;
		CREATE TABLE wallet (id TEXT PRIMARY KEY, balance INTEGER NOT NULL); INSERT INTO wallet VALUES ('ada', 100)`)
	if err != nil {
		log.Fatal(err)
	}

	outlived(func(ctx context.Context) error {
		return add(ctx, db, sqlfence.SQLite, `UPDATE wallet SET balance = balance + ? WHERE id = ?`)
	})
	var balance int
	fmt.Println(db.QueryRowContext(ctx, `SELECT balance FROM wallet`).Scan(&balance), balance)
	// Output:
	// first holder: <nil>
	// second holder: <nil>
	// first holder is stale: true
	// <nil> 120
}

package pgbackend_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// These examples need a PostgreSQL, so they are compiled and not run.
func ExampleDial() {
	ctx := context.Background()
	s, err := pgbackend.Dial(ctx, "postgres://localhost/app", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	err = mutex.New(s, "orders/settle").Do(ctx, func(ctx context.Context, h *session.Hold) error {
		fmt.Println("token", h.Token())
		return ctx.Err()
	})
	fmt.Println("done:", err)
}

// The lock is checked, and the data is written, in one commit.
func ExampleGuard() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	s, err := pgbackend.Open(ctx, pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	err = mutex.New(s, "orders/settle").Do(ctx, func(ctx context.Context, hold *session.Hold) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit it does nothing
		query, args := pgbackend.Guard(hold)
		var held bool
		err = tx.QueryRow(ctx, query, args...).Scan(&held) // if held, it stays held until the commit
		if err != nil || !held {
			return errors.Join(err, context.Cause(hold.Context()))
		}
		if _, err := tx.Exec(ctx, "update orders set settled = true where not settled"); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
	fmt.Println("done:", err)
}

// The program that owns the schema makes the tables, once; the roles of others need no right to do so.
func ExampleApply() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "postgres://owner@localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)

	err = pgbackend.Apply(ctx, conn, "locks", time.Minute)
	if err != nil {
		log.Fatal(err)
	}
}

// For a tool that runs migrations: it gets the statements as text.
func ExampleSchema() {
	statements, err := pgbackend.Schema("locks", time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(statements)
}

// A program that has a pool shares it: the session has connections of its own for renewals and notices only.
func ExampleOpen() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	s, err := pgbackend.Open(ctx, pool, &pgbackend.Options{Schema: "locks"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}

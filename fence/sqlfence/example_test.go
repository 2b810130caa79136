package sqlfence_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/fence/sqlfence"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// The statement belongs to the migrations of the database.
func ExampleSchema() {
	fmt.Println(sqlfence.Schema(sqlfence.MariaDB))
	// Output:
	// CREATE TABLE IF NOT EXISTS fairlock_marks (
	// 	name            varbinary(512) NOT NULL,
	// 	part            varbinary(64) NOT NULL,
	// 	exclusive_token bigint NOT NULL,
	// 	shared_token    bigint NOT NULL,
	// 	PRIMARY KEY (name, part)
	// ) ENGINE=InnoDB
}

// The token comes with the context, so the function needs no parameter for it.
func ExampleTx_Touch() {
	deposit := func(ctx context.Context, db *sql.DB, id string, amount int64) error {
		tx, err := db.BeginTx(ctx, nil) // rolled back when the lock is lost
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // after a Commit it does nothing
		if err := sqlfence.In(tx, sqlfence.PostgreSQL).Touch(ctx); err != nil {
			return err // fence.ErrStale: a newer holder has come
		}
		if _, err := tx.ExecContext(ctx, `UPDATE wallet SET balance = balance + $2 WHERE id = $1`, id, amount); err != nil {
			return err
		}
		return tx.Commit()
	}

	var s *session.Session
	var db *sql.DB
	_ = func(ctx context.Context) error {
		return mutex.New(s, "wallet/ada").Do(ctx, func(ctx context.Context, _ *session.Hold) error {
			return deposit(ctx, db, "ada", 10)
		})
	}
}

// A statement with the token in its condition needs no other request.
func ExampleTx_CheckRow() {
	var db *sql.DB
	set := func(ctx context.Context, id string, balance int64) error {
		token, ok := session.TokenFrom(ctx)
		if !ok {
			return sqlfence.ErrNoHold
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // after a Commit it does nothing
		res, err := tx.ExecContext(ctx, `UPDATE wallet SET balance = $2, token = $3 WHERE id = $1 AND token <= $3`, id, balance, token)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		row := sqlfence.Row{Table: "wallet", Key: "id", Column: "token", ID: id}
		if err := sqlfence.In(tx, sqlfence.PostgreSQL).CheckRow(ctx, row, n); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = set
}

// What comes from outside with its token, in a header for example, is an Access.
func ExampleAccess() {
	var db *sql.DB
	put := func(ctx context.Context, name string, token session.Token) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // after a Commit it does nothing
		err = sqlfence.In(tx, sqlfence.MariaDB).Touch(ctx, sqlfence.Access{Name: name, Token: token})
		if err != nil {
			return err
		}
		log.Print("write here")
		return tx.Commit()
	}
	_ = put
}

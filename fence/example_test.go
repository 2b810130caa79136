package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// A holder that has lost the lock without knowing it comes too late.
func ExampleGate() {
	ctx := context.Background()
	store := membackend.New()
	s, err := store.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	m := mutex.New(s, "account")
	var gate fence.Gate // at the resource
	balance := 100

	old, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store.Expire(store.Sessions()[0]) // while the holder is stopped
	next, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Unlock()

	read := func(fence.Marks) error { fmt.Println("balance", balance); return nil }
	write := func(fence.Marks) error { balance -= 30; return nil }
	fmt.Println(gate.Do(next.Token(), session.Exclusive, read)) // the first touch is a read
	err = gate.Do(old.Token(), session.Exclusive, write)
	fmt.Println("late write is stale:", errors.Is(err, fence.ErrStale))
	// Output:
	// balance 100
	// <nil>
	// late write is stale: true
}

// A resource that several holds use at once is fenced in parts: a gate for each
// slot.
func ExampleGate_slots() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	var gpus [2]fence.Gate
	pool := semaphore.NewWith(s, "gpu", int64(len(gpus)), semaphore.Options{Slots: true})

	for range gpus {
		h, err := pool.Acquire(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		defer h.Unlock()
		fmt.Println("gpu", h.Slot(), gpus[h.Slot()].Admit(h.Token(), session.Exclusive))
	}
	// Output:
	// gpu 0 <nil>
	// gpu 1 <nil>
}

// touch is the first statement of a transaction in PostgreSQL: it refuses a token that is
// lower than the highest that has touched the row. The column is a BIGINT, because tokens
// have 64 bits.
const touch = `UPDATE account SET token = $2 WHERE name = $1 AND token <= $2 RETURNING balance`

// withdraw takes an amount from an account in one transaction.
func withdraw(h *session.Hold, db *sql.DB, amount int64) error {
	tx, err := db.BeginTx(h.Context(), nil) // rolled back when the lock is lost
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a Commit it does nothing
	var balance int64
	err = tx.QueryRow(touch, "ada", h.Token()).Scan(&balance)
	if err != nil {
		return err // sql.ErrNoRows: a newer token has touched the row, or there is none
	}
	if _, err = tx.Exec(`UPDATE account SET balance = $2 WHERE name = $1`, "ada", balance-amount); err != nil {
		return err
	}
	return tx.Commit()
}

// A resource in PostgreSQL.
func Example_postgreSQL() {
	var h *session.Hold
	var db *sql.DB
	_ = func() error { return withdraw(h, db, 10) }
}

//go:build unix

// Payments moves money between accounts, each of which has a lock. A payment takes the locks of
// both accounts at once, reads the balances, asks the bank, which takes a while, and writes the
// balances. A worker that is stopped in between for too long is refused by PostgreSQL, because a
// newer holder has shown a higher token.
//
//	go run ./examples/payments
//	PAYMENTS_ETCD=127.0.0.1:2379 PAYMENTS_DB=postgres://… go run ./examples/payments -worker a
//
// Without -worker, demo.go starts etcd, PostgreSQL and three workers, and breaks them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/sqlfence"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

const accounts = `CREATE TABLE account (id text PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0));
	INSERT INTO account VALUES ('ada', 1000), ('bob', 1000), ('cyd', 1000)`

var ids = []string{"ada", "bob", "cyd"}

func main() {
	name := flag.String("worker", "", "run as the worker with this name; none starts three, and servers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *name != "" {
		err = work(ctx, *name, os.Getenv("PAYMENTS_ETCD"), os.Getenv("PAYMENTS_DB"))
	} else {
		err = demo(ctx, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// work makes payments until ctx ends.
func work(ctx context.Context, name, etcd, url string) error {
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: strings.Split(etcd, ",")},
		&etcdbackend.Options{Session: session.Options{TTL: 2 * time.Second, Label: name}})
	if err != nil {
		return err
	}
	defer s.Close()
	db, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer db.Close()
	for ctx.Err() == nil {
		from := rand.IntN(len(ids))
		to := (from + 1 + rand.IntN(len(ids)-1)) % len(ids)
		p := &payment{name: name, from: ids[from], to: ids[to], amount: 1 + rand.Int64N(50)}
		err := p.pay(ctx, s, db)
		switch {
		case err == nil:
			fmt.Println(p, "paid")
		case errors.Is(err, fence.ErrStale):
			fmt.Println(p, "refused:", err) // nothing was written; the payment may be made anew
		case ctx.Err() == nil:
			fmt.Println(p, "not made:", err)
		}
	}
	return nil
}

type payment struct {
	name, from, to string
	amount         int64
	token          session.Token
}

func (p *payment) String() string {
	return fmt.Sprintf("%s: %d from %s to %s, token %d:", p.name, p.amount, p.from, p.to, p.token)
}

// pay makes the payment under the locks of both accounts. LockAll takes them in one order.
func (p *payment) pay(ctx context.Context, s *session.Session, db *pgxpool.Pool) error {
	h, err := mutex.LockAll(ctx, mutex.New(s, "account/"+p.from), mutex.New(s, "account/"+p.to))
	if err != nil {
		return err
	}
	defer func() { _ = h.Unlock() }() // if it fails, the lock ends with the session
	p.token = h.Token()
	balances, err := p.read(h.Context(), db) //nolint:contextcheck // it ends with the hold
	if err == nil && balances[p.from] < p.amount {
		err = errors.New("not enough money")
	}
	if err != nil {
		return err
	}
	fmt.Println(p, "asks the bank")
	time.Sleep(20 * time.Millisecond) // the process may be stopped here, for longer than its lock lasts
	balances[p.from] -= p.amount
	balances[p.to] += p.amount
	// The write does not end with the lock: the token decides, and the outcome is known.
	return p.write(context.WithoutCancel(h.Context()), db, balances) //nolint:contextcheck // it has its hold
}

// read touches the marks of both accounts first, so that no older holder can write any more.
func (p *payment) read(ctx context.Context, db *pgxpool.Pool) (balances map[string]int64, err error) {
	balances = map[string]int64{}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if err := sqlfence.InPgx(tx).Touch(ctx); err != nil {
			return err
		}
		for _, id := range []string{p.from, p.to} {
			var balance int64
			if err := tx.QueryRow(ctx, `SELECT balance FROM account WHERE id = $1`, id).Scan(&balance); err != nil {
				return err
			}
			balances[id] = balance
		}
		return nil
	})
	return balances, err
}

func (p *payment) write(ctx context.Context, db *pgxpool.Pool, balances map[string]int64) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		err := sqlfence.InPgx(tx).Touch(ctx) // the token and the names of both locks are in ctx
		for id, balance := range balances {
			if err == nil {
				_, err = tx.Exec(ctx, `UPDATE account SET balance = $2 WHERE id = $1`, id, balance)
			}
		}
		return err
	})
}

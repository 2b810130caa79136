// River shows a job of River that must not run twice at the same time: one at a time for each
// account, whatever queue, client or cluster of River it comes from. Its Work takes a lock that
// Fairlock keeps in the same PostgreSQL, and commits what it does, the check of the lock and the
// end of the job at once.
//
//	createdb app && fairlock schema postgres --apply postgres://localhost/app
//	go run . -cluster web & go run . -cluster batch
//
// River needs no help with what is due when: its leader enqueues periodic jobs once, and unique
// jobs are not inserted twice. But both are for one cluster (a database and a schema), and both
// are about inserting. River runs a job again when it has run for longer than RescueStuckJobsAfter,
// and does not know whether the first run goes on, in a process that was stopped for example.
//
// What to know:
//
//   - TryDo and a snooze, and not Do: a job that waits for a lock takes one of MaxWorkers, and its
//     JobTimeout, one minute by default, goes on. A snooze counts as no attempt. It makes no queue
//     either: the job whose snooze ends first is next. Where the order matters, use Do, a longer
//     JobTimeout and a River queue of its own.
//   - The context ends when the lock is lost, and Work returns session.ErrLost: River runs the job
//     again. So the work before the commit must bear to be repeated, as in River without a lock.
//   - What is not in this database is not protected by the commit: send Hold.Token with it, and
//     let the other side refuse tokens that are lower than one that it has seen.
//   - Stop the client before the session is closed. A job that StopAndCancel ends releases its lock.
//   - The session has two connections beside the pool, for renewals and notifications.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// settle is a job for an account.
type settle struct {
	Account string `json:"account"`
}

// Kind implements river.JobArgs.
func (settle) Kind() string { return "settle" }

// A settler works on jobs for accounts.
type settler struct {
	river.WorkerDefaults[settle]
	db    *pgxpool.Pool
	locks *session.Session
	busy  time.Duration // after which a job is tried again whose account is locked
	pay   func(ctx context.Context, account string, token session.Token) error
}

// Work implements river.Worker.
func (w *settler) Work(ctx context.Context, job *river.Job[settle]) error {
	account := job.Args.Account
	err := mutex.New(w.locks, "account/"+account).TryDo(ctx, func(ctx context.Context, h *session.Hold) error {
		if err := w.pay(ctx, account, h.Token()); err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error {
			query, args := pgbackend.Guard(h)
			var held bool
			if err := tx.QueryRow(ctx, query, args...).Scan(&held); err != nil {
				return err
			}
			if !held {
				return session.ErrLost
			}
			_, err := tx.Exec(ctx, `INSERT INTO settlement (account, token) VALUES ($1, $2)`, account, int64(h.Token()))
			if err == nil {
				_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
			}
			return err
		})
	})
	if errors.Is(err, session.ErrNotAcquired) {
		return river.JobSnooze(w.busy)
	}
	return err
}

// start starts a client of the River cluster that is in a schema.
func start(ctx context.Context, cluster string, w *settler, periodic ...*river.PeriodicJob) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(riverpgxv5.New(w.db), &river.Config{
		Schema: cluster, Workers: workers, PeriodicJobs: periodic,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
	})
	if err != nil {
		return nil, err
	}
	return client, client.Start(ctx)
}

// prepare makes the tables that the example has beside those of the locks.
func prepare(ctx context.Context, db *pgxpool.Pool, cluster string) error {
	_, err := db.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{cluster}.Sanitize()+`;
CREATE TABLE IF NOT EXISTS settlement (id BIGSERIAL PRIMARY KEY, account TEXT NOT NULL, token BIGINT NOT NULL)`)
	if err != nil {
		return err
	}
	m, err := rivermigrate.New(riverpgxv5.New(db), &rivermigrate.Config{Schema: cluster})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func main() {
	url := flag.String("postgres", "postgres://localhost/app", "the database of the jobs and the locks")
	cluster := flag.String("cluster", "web", "the schema of River's tables")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *cluster); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// run settles one account every second, until ctx ends.
func run(ctx context.Context, url, cluster string) error {
	db, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := prepare(ctx, db, cluster); err != nil {
		return err
	}
	s, err := pgbackend.Open(ctx, db, &pgbackend.Options{Session: session.Options{Label: cluster}})
	if err != nil {
		return err
	}
	w := &settler{db: db, locks: s, busy: time.Second, pay: func(_ context.Context, account string, token session.Token) error {
		fmt.Println(cluster, "settles", account, "with token", token)
		return nil
	}}
	everySecond := river.NewPeriodicJob(river.PeriodicInterval(time.Second), func() (river.JobArgs, *river.InsertOpts) {
		return settle{Account: "a"}, nil
	}, nil)
	client, err := start(context.WithoutCancel(ctx), cluster, w, everySecond)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	<-ctx.Done()
	return errors.Join(client.StopAndCancel(context.WithoutCancel(ctx)), s.Close())
}

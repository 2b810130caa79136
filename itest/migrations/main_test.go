// Package migrations tests the adapters for migrations with processes of their own, which migrate
// one PostgreSQL. Locks are on etcd, or in another database of the same server.
package migrations

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/process"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// env makes a test binary a replica; its value is a job.
const env = "FAIRLOCK_ITEST_MIGRATES"

// dirty is the exit code of a replica that has found a migration which another one began.
const dirty = 3

func TestMain(m *testing.M) {
	process.Child(env, func(text string) error {
		err := replica(text)
		if errors.Is(err, errDirty) {
			os.Exit(dirty)
		}
		return err
	})
	goleak.VerifyTestMain(m)
}

// job describes a replica.
type job struct {
	Host  string        // of hosts
	Store string        // of the locks: etcd, postgres
	Locks string        // where that is
	Data  string        // the database that is migrated
	TTL   time.Duration // how long a replica that has died keeps the lock
	Dies  []string      // at each of these steps, one of all replicas dies
	Stops string        // the step at which the test stops this replica with SIGSTOP
	Heeds bool          // when it goes on, the step waits for the end of its context
}

// stops is the line of a replica that the test has to stop.
const stops = "stop me"

// neverEnded is the error of a replica that heeds its context in vain.
const neverEnded = "the context has not ended"

// The steps at which a replica may die, or be stopped.
const (
	before  = "before the lock"
	locked  = "with the lock, before the first statement"
	between = "between two migrations"
	inside  = "in a migration"
	unlocks = "before the unlock"
)

// running is a replica in its own process.
type running struct {
	job
	s       *session.Session
	db      *sql.DB
	stopped bool // and goes on
}

// replica is the main function of a replica. It writes a line when its session is open, and
// migrates when its input ends.
func replica(text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &running{}
	if err := json.Unmarshal([]byte(text), &r.job); err != nil {
		return err
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	err := r.step(ctx, before)
	if err == nil {
		err = hosts[r.Host](ctx, r)
	}
	for errors.Is(err, session.ErrLost) && !r.stopped { // a busy machine; a service would start again
		err = hosts[r.Host](ctx, r)
	}
	return errors.Join(err, r.db.Close(), r.s.Close())
}

func (r *running) open(ctx context.Context) (err error) {
	r.db, err = sql.Open("pgx", r.Data)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hang.Guard)
	defer cancel()
	if r.Store == "etcd" {
		r.s, err = etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: []string{r.Locks}, Timeout: hang.Guard}, &etcdbackend.Options{Session: session.Options{TTL: r.TTL}})
		return err
	}
	r.s, err = pgbackend.Dial(ctx, r.Locks, &pgbackend.Options{Session: session.Options{TTL: r.TTL}})
	return err
}

// lock is the lock of the migrations.
func (r *running) lock() *mutex.Mutex { return mutex.New(r.s, "migrations") }

// step ends the process if it is the first of all that reaches this step, and has to die there.
func (r *running) step(ctx context.Context, step string) error {
	if step == r.Stops {
		return r.stop(ctx)
	}
	claimed, err := r.claim(ctx, step)
	if claimed {
		die()
	}
	return err
}

// stop writes a line, and returns when the test has stopped the process and lets it go on.
func (r *running) stop(ctx context.Context) error {
	r.Stops, r.stopped = "", true
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(goesOn)
	fmt.Println(stops)
	<-goesOn
	if !r.Heeds {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(hang.Guard):
		return errors.New(neverEnded)
	}
}

// claim reports whether the process has to die at this step.
func (r *running) claim(ctx context.Context, step string) (bool, error) {
	result, err := r.db.ExecContext(ctx, "UPDATE deaths SET pid = $1 WHERE step = $2 AND pid IS NULL", os.Getpid(), step)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// die ends the process as the kernel does when there is no memory left.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

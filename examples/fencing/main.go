//go:build unix

// Fencing shows what a lock cannot do and the resource must do. A holder is
// stopped until its lock is lost and the next holder has worked. Then it resumes
// and writes. The table stores the highest token that has touched a row, from the
// first read on, and refuses every lower token: package sqlfence does that. The table is in
// SQLite here. PostgreSQL takes the same statements with $1 for ?1.
//
//	cd examples/fencing && go run .
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/sqlfence"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

const schema = `CREATE TABLE account (name TEXT PRIMARY KEY, balance BIGINT NOT NULL, token BIGINT NOT NULL);
	INSERT INTO account VALUES ('ada', 100, 0)`

// access runs fn in a transaction that begins with the token of the hold that ctx comes from. The
// row of the account refuses a token that is lower than one that it has seen. The transaction
// is rolled back when the lock is lost.
func access(ctx context.Context, db *sql.DB, account string, fn func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a Commit it does nothing
	row := sqlfence.Row{Table: "account", Key: "name", Column: "token", ID: account}
	err = sqlfence.In(tx, sqlfence.SQLite).TouchRow(ctx, row)
	if err != nil {
		return err
	}
	err = fn(tx)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// balance returns the balance of an account.
func balance(ctx context.Context, db *sql.DB, account string) (n int64, err error) {
	err = access(ctx, db, account, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT balance FROM account WHERE name = ?1`, account).Scan(&n)
	})
	return n, err
}

// setBalance writes the balance of an account.
func setBalance(ctx context.Context, db *sql.DB, account string, n int64) error {
	return access(ctx, db, account, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE account SET balance = ?2 WHERE name = ?1`, account, n)
		return err
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	etcd := os.Getenv("FENCING_ETCD")
	if etcd != "" {
		err = withdraw(ctx, "first", etcd, os.Getenv("FENCING_DB"), os.Stdout, func() {
			fmt.Println("first: ready to write") // the process is stopped here, for longer than its lease
			goOn := make(chan struct{})
			go func() { // ends with stdin, at the latest with the process
				defer close(goOn)
				_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
			}()
			select {
			case <-goOn:
			case <-ctx.Done(): // SIGTERM: it writes and releases the lock
			}
		})
	} else {
		dir, _ := os.MkdirTemp("", "fencing-*")
		err = errors.Join(demo(ctx, dir, os.Stdout), os.RemoveAll(dir))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// withdraw takes 10 from an account, under the lock.
func withdraw(ctx context.Context, name, endpoint, path string, out io.Writer, stopped func()) error {
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: []string{endpoint}},
		&etcdbackend.Options{Session: session.Options{TTL: 2 * time.Second}})
	if err != nil {
		return err
	}
	defer s.Close()
	written := false
	err = mutex.New(s, "account/ada").Do(ctx, func(ctx context.Context, h *session.Hold) error {
		n, err := balance(ctx, db, "ada") // the first access, although it only reads
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: token %d, balance %d\n", name, h.Token(), n)
		stopped()
		// ctx is cancelled when the lock is lost. But a process can be stopped
		// right after any check of ctx. The example makes that case happen: it
		// writes without a check.
		err = setBalance(context.WithoutCancel(ctx), db, "ada", n-10)
		written = err == nil
		if written {
			fmt.Fprintf(out, "%s: wrote balance %d\n", name, n-10)
		}
		return err
	})
	switch {
	case errors.Is(err, fence.ErrStale):
		fmt.Fprintf(out, "%s: write refused, lock lost: %t\n", name, errors.Is(err, session.ErrLost))
		return nil // nothing was done; the caller may try again
	case errors.Is(err, session.ErrLost) && written:
		return nil // the write was in time; the lock was lost right after it
	}
	return err
}

// demo stops one process in its work, lets another holder work, and resumes the
// first.
func demo(ctx context.Context, dir string, out io.Writer) error {
	cluster, err := etcdtest.Start(ctx, nil)
	if err != nil {
		return err
	}
	defer cluster.Close()
	path, endpoint := filepath.Join(dir, "accounts.db"), cluster.Endpoints()[0]
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, schema)
	if err != nil {
		return err
	}
	first := exec.CommandContext(ctx, os.Args[0])
	first.Env = append(os.Environ(), "FENCING_ETCD="+endpoint, "FENCING_DB="+path)
	first.Cancel = func() error { return first.Process.Signal(syscall.SIGTERM) } // so that it releases the lock
	first.WaitDelay = 5 * time.Second
	stdin, err1 := first.StdinPipe()
	stdout, err2 := first.StdoutPipe()
	if err := errors.Join(err1, err2, first.Start()); err != nil {
		return err
	}
	defer func() { _ = errors.Join(first.Process.Kill(), first.Wait()) }() // unless it has ended
	output := bufio.NewScanner(stdout)
	for output.Scan() {
		fmt.Fprintln(out, output.Text())
		if strings.HasSuffix(output.Text(), "ready to write") {
			err = errors.Join(
				first.Process.Signal(syscall.SIGSTOP),
				withdraw(ctx, "second", endpoint, path, out, func() {}), // waits until the lease has run out
				first.Process.Signal(syscall.SIGCONT), stdin.Close())
		}
	}
	return errors.Join(err, output.Err())
}

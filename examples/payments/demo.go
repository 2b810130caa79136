//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fence/sqlfence"
	"github.com/fairlock/fairlock/pgtest"
)

// fleet is the workers, and what they have printed.
type fleet struct {
	env     []string
	out     io.Writer
	lines   chan string // of all workers
	ended   chan error  // has what Wait of each worker returns
	workers map[string]*exec.Cmd
}

// demo runs the workers through the faults, and counts the money.
func demo(ctx context.Context, out io.Writer) (err error) {
	etcd, err := etcdtest.Start(ctx, &etcdtest.Options{Members: 3, Processes: true})
	if err != nil {
		return err
	}
	defer etcd.Close()
	postgres, err := pgtest.Start(ctx, nil)
	if err != nil {
		return err
	}
	defer postgres.Close()
	if err := postgres.Exec(ctx, sqlfence.Schema(sqlfence.PostgreSQL)+";"+accounts); err != nil {
		return err
	}
	f := &fleet{out: out, lines: make(chan string), ended: make(chan error), workers: map[string]*exec.Cmd{}}
	f.env = append(os.Environ(), "PAYMENTS_ETCD="+strings.Join(etcd.Endpoints(), ","), "PAYMENTS_DB="+postgres.URL())
	defer func() { err = errors.Join(err, f.end()) }()
	for _, name := range []string{"a", "b", "c"} {
		if err := f.start(ctx, name); err != nil {
			return err
		}
	}
	if err := f.faults(ctx, etcd); err != nil {
		return err
	}
	if err := f.end(); err != nil {
		return err
	}
	sum, err := pgtest.Value[int64](ctx, postgres, `SELECT sum(balance)::bigint FROM account`)
	fmt.Fprintf(out, "the accounts have %d, of 3000\n", sum)
	return err
}

// faults stops a worker while it asks the bank, until another one has paid, kills another one, and
// kills the leader of etcd. Two payments have at least one of the three accounts in common.
func (f *fleet) faults(ctx context.Context, etcd *etcdtest.Cluster) error {
	refused := false
	for attempt := 0; attempt < 5 && !refused; { // again if the worker has written before it was stopped
		asks, err := f.until(ctx, "a: ", "asks the bank")
		if err != nil {
			return err
		}
		if err := f.workers["a"].Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		early := false // its payment was made
		for newer := false; !newer; {
			line, err := f.until(ctx, "", "")
			if err != nil {
				return err
			}
			early = early || strings.HasPrefix(line, "a: ") && tokenOf(line) == tokenOf(asks)
			newer = strings.HasSuffix(line, "paid") && tokenOf(line) > tokenOf(asks)
		}
		if err := f.workers["a"].Process.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		if early {
			continue
		}
		answer, err := f.until(ctx, "a: ", "")
		if err != nil {
			return err
		}
		refused = strings.Contains(answer, "refused")
		attempt++
	}
	if !refused {
		return errors.New("a payment with an old token was made")
	}
	if _, err := f.until(ctx, "b: ", "asks the bank"); err != nil {
		return err
	}
	if err := f.workers["b"].Process.Kill(); err != nil {
		return err
	}
	leader, err := etcd.Leader(ctx)
	if err != nil {
		return err
	}
	etcd.Member(leader).Kill()
	fmt.Fprintln(f.out, "killed worker b and the leader of etcd")
	for range 10 {
		if _, err := f.until(ctx, "", "paid"); err != nil {
			return err
		}
	}
	return nil
}

// tokenOf returns the token that a worker has printed, 0 if there is none.
func tokenOf(line string) (token int64) {
	_, after, _ := strings.Cut(line, "token ")
	_, _ = fmt.Sscanf(after, "%d:", &token)
	return token
}

// start starts a worker.
func (f *fleet) start(ctx context.Context, name string) error {
	cmd := exec.CommandContext(ctx, os.Args[0], "-worker", name)
	cmd.Env, cmd.Stderr = f.env, os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f.workers[name] = cmd
	go func() { // ends with the worker, for which end waits
		for s := bufio.NewScanner(stdout); s.Scan(); {
			f.lines <- s.Text()
		}
		f.ended <- cmd.Wait()
	}()
	return nil
}

// until returns the next line with a beginning and an end like this.
func (f *fleet) until(ctx context.Context, worker, text string) (string, error) {
	for {
		select {
		case line := <-f.lines:
			fmt.Fprintln(f.out, line)
			if strings.HasPrefix(line, worker) && strings.Contains(line, text) {
				return line, nil
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// end ends the workers, and returns when they have ended. A second call does nothing.
func (f *fleet) end() error {
	for _, cmd := range f.workers {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Process.Signal(syscall.SIGCONT)
	}
	var errs []error
	for left := len(f.workers); left > 0; {
		select {
		case line := <-f.lines:
			fmt.Fprintln(f.out, line)
		case err := <-f.ended:
			left--
			if err != nil && err.Error() != "signal: killed" { // that one was a fault
				errs = append(errs, err)
			}
		}
	}
	clear(f.workers)
	return errors.Join(errs...)
}

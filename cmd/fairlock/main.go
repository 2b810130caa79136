// Command fairlock is the command line of the library of that name: fair, fenced
// locks on etcd, ZooKeeper, PostgreSQL and Redis.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/interrupt"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/internal/schema"
)

func main() {
	end := run(os.Args[1:])
	// A shell that has called us goes on with its script or its loop after ^C if we exit with a
	// code: then we seem to have handled the signal.
	if end.Signal != 0 {
		supervise.Die(end.Signal, end.Group)
	}
	os.Exit(end.Code)
}

// run runs the command line and returns how this process is to end.
func run(args []string) (end exit.Error) {
	cmd := root()
	cmd.SetArgs(args)
	ctx := context.Background()
	// Commands that hold locks handle signals themselves. Until they do, a signal ends them: what
	// they wait for then, such as a config file that is a pipe, heeds no context.
	if c, _, err := cmd.Find(args); err != nil || c.GroupID != groupHold {
		var stop func()
		ctx, stop = interrupt.Context(ctx)
		defer stop()
		defer supervise.ReapOrphans()()
	}
	ran, err := cmd.ExecuteContextC(ctx)
	var e *exit.Error
	switch {
	case err == nil:
		return exit.Error{Code: exit.OK}
	case !errors.As(err, &e): // an error of cobra or a flag: wrong usage
		return exit.Error{Code: report(ran, exit.Usage, hint(ran, err))}
	}
	end = exit.Error{Code: e.Code, Signal: e.Signal, Group: e.Group}
	if e.Err != nil {
		end.Code, err = ended(ctx, e)
		report(ran, end.Code, err)
	}
	sig := interrupt.By(ctx)
	if sig != 0 && end.Code == exit.Interrupted {
		end.Code, end.Signal = supervise.CodeSignal+int(sig), sig
	}
	return end
}

// unknownError is the error of a request that changes something at the service, and that
// may have done so. An interrupt does not hide it.
type unknownError struct {
	text string
	err  error
}

func (e *unknownError) Error() string { return e.text + ": " + e.err.Error() }

func (e *unknownError) Unwrap() error { return e.err }

// ended returns the exit code and what to print for an error, after ctx may have been
// interrupted.
func ended(ctx context.Context, e *exit.Error) (int, error) {
	_, unknown := errors.AsType[*unknownError](e.Err)
	switch {
	case ctx.Err() == nil:
		return e.Code, e.Err
	case unknown:
		return exit.Interrupted, e.Err
	}
	return exit.Interrupted, errors.New("interrupted")
}

// report writes on stderr why a command failed, and returns code.
func report(cmd *cobra.Command, code int, err error) int {
	if show.WantsObjects(cmd) {
		_ = show.Line(os.Stderr, schema.NewError(code, err.Error())) // if stderr is closed, errors are not wanted
		return code
	}
	fmt.Fprintf(os.Stderr, "fairlock: %v\n", err)
	if code == exit.Usage {
		fmt.Fprintf(os.Stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return code
}

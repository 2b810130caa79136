// Command fairlock is the command line of the library of that name: fair, fenced
// locks on etcd and ZooKeeper.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/schema"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run runs the command line and returns the exit code.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), leaving()...)
	defer stop()
	cmd := root()
	cmd.SetArgs(args)
	ran, err := cmd.ExecuteContextC(ctx)
	if err == nil {
		return exit.OK
	}
	var e *exit.Error
	switch {
	case !errors.As(err, &e): // cobra's own: what was typed makes no sense
		return say(ran, exit.Usage, hint(ran, err))
	case e.Err == nil:
		return e.Code
	case ctx.Err() != nil:
		return say(ran, exit.Interrupted, errors.New("interrupted"))
	}
	return say(ran, e.Code, e.Err)
}

// leaving are the signals that ask us to leave. One that was ignored when we were
// started, as nohup does, stays so, also for the commands that we run.
func leaving() []os.Signal {
	return slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
}

// say tells on stderr why a command did not do what it was asked to.
func say(cmd *cobra.Command, code int, err error) int {
	if show.WantsObjects(cmd) {
		_ = show.Line(os.Stderr, schema.NewError(code, err.Error())) // who has closed stderr wants no errors
		return code
	}
	fmt.Fprintf(os.Stderr, "fairlock: %v\n", err)
	if code == exit.Usage {
		fmt.Fprintf(os.Stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return code
}

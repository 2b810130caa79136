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
	cmd := root()
	cmd.SetArgs(args)
	ctx := context.Background()
	// Commands that hold locks handle signals themselves. Until they do, a signal ends them: what
	// they wait for then, such as a config file that is a pipe, heeds no context.
	if c, _, err := cmd.Find(args); err != nil || c.GroupID != groupHold {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, exitSignals()...)
		defer stop()
	}
	ran, err := cmd.ExecuteContextC(ctx)
	if err == nil {
		return exit.OK
	}
	var e *exit.Error
	switch {
	case !errors.As(err, &e): // an error of cobra or a flag: wrong usage
		return report(ran, exit.Usage, hint(ran, err))
	case e.Err == nil:
		return e.Code
	}
	code, err := ended(ctx, e)
	return report(ran, code, err)
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
	switch _, unknown := errors.AsType[*unknownError](e.Err); {
	case ctx.Err() == nil:
		return e.Code, e.Err
	case unknown:
		return exit.Interrupted, e.Err
	}
	return exit.Interrupted, errors.New("interrupted")
}

// exitSignals returns the signals that end this process. SIGHUP and SIGINT stay ignored if
// they were ignored at the start, as under nohup; see supervise.Listen.
func exitSignals() []os.Signal {
	return slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
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

// Command fairlock is the command line of the library of that name: fair, fenced
// locks on etcd and ZooKeeper.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run runs the command line and returns the exit code.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	cmd := root()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exit.OK
	}
	var e *exit.Error
	switch {
	case !errors.As(err, &e): // cobra's own: what was typed makes no sense
		fmt.Fprintf(os.Stderr, "fairlock: %v\nRun 'fairlock --help' for what there is.\n", err)
		return exit.Usage
	case e.Err == nil:
		return e.Code
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "fairlock: interrupted")
		return exit.Interrupted
	}
	fmt.Fprintf(os.Stderr, "fairlock: %v\n", e.Err)
	return e.Code
}

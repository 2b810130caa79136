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
		return exitOK
	}
	var e *exit
	switch {
	case !errors.As(err, &e): // cobra's own: what was typed makes no sense
		fmt.Fprintf(os.Stderr, "fairlock: %v\nRun 'fairlock --help' for what there is.\n", err)
		return exitUsage
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "fairlock: interrupted")
		return exitInterrupted
	}
	fmt.Fprintf(os.Stderr, "fairlock: %v\n", e.err)
	return e.code
}

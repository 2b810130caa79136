// Command run puts load on the services, and prints the figures of each scenario; see
// package load. It fails if a figure did not return to its start value.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/fairlock/fairlock/robustness/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	size := load.Full()
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	on := flags.String("on", "etcd,zookeeper", "the `services`, separated by commas")
	only := flags.String("only", "", "the `scenario`: waiters (of one session), crowd (waiters of many sessions), holds, sessions or names; all if empty")
	file := flags.String("json", "", "the `file` to write the results to as well")
	flags.IntVar(&size.Waiters, "waiters", size.Waiters, "the `number` of waiters for one lock")
	flags.IntVar(&size.Crowd, "crowd", size.Crowd, "the `number` of sessions that the waiters use in the scenario crowd")
	flags.IntVar(&size.Holds, "holds", size.Holds, "the `number` of locks that one session holds")
	flags.IntVar(&size.Sessions, "sessions", size.Sessions, "the `number` of sessions at once")
	flags.DurationVar(&size.Names, "names", size.Names, "how long changing names are locked")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var results []*load.Result
	var errs []error
	for service := range strings.SplitSeq(*on, ",") {
		for _, sc := range size.Scenarios() {
			if *only != "" && sc.Name != *only {
				continue
			}
			res, err := load.On(ctx, service, sc)
			if res != nil {
				results = append(results, res)
				load.Table(out, res)
			}
			errs = append(errs, err)
		}
	}
	if *file != "" {
		text, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(*file, append(text, '\n'), 0o644)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

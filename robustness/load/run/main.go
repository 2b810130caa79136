// Command run puts weight on the stores and says what became of everything; see
// package load. It fails if something did not return to where it began.
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
	on := flags.String("on", "etcd,zookeeper", "stores")
	only := flags.String("only", "", "waiters (of one session), crowd (of many), holds, sessions or names; all if empty")
	file := flags.String("json", "", "also write the results there")
	flags.IntVar(&size.Waiters, "waiters", size.Waiters, "how many wait for one lock")
	flags.IntVar(&size.Crowd, "crowd", size.Crowd, "through how many sessions they wait, the second time")
	flags.IntVar(&size.Holds, "holds", size.Holds, "locks that one session holds")
	flags.IntVar(&size.Sessions, "sessions", size.Sessions, "sessions at once")
	flags.DurationVar(&size.Names, "names", size.Names, "how long changing names are locked")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var results []*load.Result
	var errs []error
	for store := range strings.SplitSeq(*on, ",") {
		for _, sc := range size.Scenarios() {
			if *only != "" && sc.Name != *only {
				continue
			}
			res, err := load.On(ctx, store, sc)
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

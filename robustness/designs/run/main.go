// Command run tries the locks of robustness/designs, and draws docs/designs.md.
//
//	go -C robustness run ./designs/run -on redis -each 20 -out DIR
//	go -C robustness run ./designs/run -on redis -lock 'SET NX PX, DEL' -fault holder-stopped -seed 7 -round 1
//	go -C robustness run ./designs/run -page "$PWD/docs/designs.md" -out DIR
//
// The first form runs all trials and measures of a store; without -on, of all stores. The second form repeats one
// round: the design, the fault, the seed and the number of the round give the same script. The timing of servers
// and programs is never the same twice. The third form runs nothing, and draws what is in DIR into the page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fairlock/fairlock/robustness/designs"
	"github.com/fairlock/fairlock/robustness/trial"
)

func main() {
	code, isChild := trial.Child(designs.Openers())
	if isChild {
		os.Exit(code)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // faults are what the trials make
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "designs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	c := &designs.Campaign{Log: os.Stderr}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	on := flags.String("on", "", "the stores, separated by commas; all if empty")
	lock := flags.String("lock", "", "the design; all if empty")
	fault := flags.String("fault", "", "the faults, separated by commas; all if empty")
	only := flags.String("only", "", "only trials, or only measures")
	flags.IntVar(&c.Each, "each", 10, "how many trials of each design and fault")
	flags.IntVar(&c.Parallel, "parallel", 10, "how many of them at the same time")
	flags.Uint64Var(&c.Seed, "seed", rand.Uint64(), "the seed of the scripts") //nolint:gosec // scripts, not secrets
	flags.Int64Var(&c.First, "round", 1, "the number of the first round, to repeat that round")
	flags.StringVar(&c.Out, "out", filepath.Join(os.TempDir(), "designs"), "the folder for results")
	page := flags.String("page", "", "run nothing, and draw what is in -out into this page")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected arguments: %q", flags.Args())
	}
	if *page != "" {
		return designs.Draw(c.Out, *page, os.Stderr)
	}
	c.Stores, c.Faults = list(*on), list(*fault)
	if *lock != "" {
		c.Locks = []string{*lock} // the names have commas
	}
	c.Command = "go -C robustness run ./designs/run"
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "out" && f.Name != "seed" {
			c.Command += fmt.Sprintf(" -%s '%s'", f.Name, f.Value)
		}
	})
	c.Command += fmt.Sprintf(" -seed %d", c.Seed)
	c.Trials, c.Measures = *only != "measures", *only != "trials" && *fault == ""
	return c.Run(ctx)
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// Command regime aims faults at locks on real servers, and says what was promised
// and not kept.
//
//	go run . -on etcd -lock fairlock -each 300 -out /tmp/regime
//	go run . -page ../docs/reliability.md -report /tmp/regime
//
// It plays rounds of all kinds of faults until each has so many trials, or the
// time is up, writes every trial as a line of JSON, and the history of every one
// that failed, and prints a table. With a lock of others' it only counts; with
// Fairlock's it exits with 1 if a promise was not kept. It does so, too, if a
// fault was not seen to be in effect. With -report it plays nothing, and draws what
// is in folders of results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/trial"
)

// service is one that locks can be tried on.
type service struct {
	name  string
	start func(context.Context) (trial.Service, error)
	child trial.Opener
}

func services() []service {
	return []service{
		{onetcd.Name, func(ctx context.Context) (trial.Service, error) { return onetcd.Start(ctx) }, onetcd.OpenChild},
		{onzk.Name, func(ctx context.Context) (trial.Service, error) { return onzk.Start(ctx) }, onzk.Open},
	}
}

// openers are what client processes need.
func openers() map[string]trial.Opener {
	all := map[string]trial.Opener{}
	for _, s := range services() {
		all[s.name] = s.child
	}
	return all
}

func main() {
	if code, isChild := trial.Child(openers()); isChild {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run is main with an exit code.
func run(ctx context.Context, args []string) int {
	c, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err == nil && c.drawn != nil:
		err = c.drawn.write(os.Stdout, os.Stderr)
	case err == nil:
		err = c.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "regime:", err)
		return 1
	}
	return 0
}

// parse reads the command line.
func parse(args []string) (*campaign, error) {
	c := &campaign{}
	var on, kinds, page string
	var drawn bool
	flags := flag.NewFlagSet("regime", flag.ContinueOnError)
	flags.StringVar(&on, "on", onetcd.Name, "the service")
	flags.StringVar(&c.lock, "lock", trial.Ours, "the lock: "+trial.Ours+", or a peer's")
	flags.DurationVar(&c.duration, "duration", 0, "begin no round after this; 0 for no limit")
	flags.IntVar(&c.each, "each", 20, "trials of each kind that have to hit")
	flags.IntVar(&c.parallel, "parallel", 20, "trials at the same time")
	flags.DurationVar(&c.soak, "soak", time.Minute, "length of the mixed work that each pass over the kinds ends with; 0 for none")
	flags.StringVar(&kinds, "kinds", "", "the kinds of faults, with commas; all if empty")
	flags.Uint64Var(&c.seed, "seed", rand.Uint64(), "what the scripts are drawn from") //nolint:gosec // scripts, not secrets
	flags.StringVar(&c.out, "out", filepath.Join(os.TempDir(), "regime"), "the folder for results")
	flags.DurationVar(&c.anew, "anew", 30*time.Minute, "start the service anew after the pass in which this has gone by: ZooKeeper keeps all logs; 0 for never")
	flags.BoolVar(&drawn, "report", false, "play nothing, and draw the results in the folders that are the arguments")
	flags.StringVar(&page, "page", "", "with -report: the page to draw in, which has a plot beside it; prints if empty")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if drawn {
		c.drawn = &drawing{folders: flags.Args(), page: page}
		return c, nil
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("there are no arguments beside flags without -report: %q", flags.Args())
	}
	if kinds != "" {
		c.only = strings.Split(kinds, ",")
	}
	for _, s := range services() {
		if s.name == on {
			c.service = s
			return c, nil
		}
	}
	return nil, fmt.Errorf("there is no service %q", on)
}

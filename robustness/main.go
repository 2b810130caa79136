// Command robustness is a robustness test of locks: it starts three real servers,
// aims faults at the clients of a lock and at the servers, and reports which
// promise was not kept. It is a module of its own, so that the library does not
// depend on what the test needs. docs/reliability.md lists the promises;
// docs/reliability/README.md has the faults, the oracles and the results.
//
// # Run it
//
//	go -C robustness run . -on etcd -each 20 -soak 0              # minutes
//	go -C robustness run . -on zookeeper -each 300 -out DIR       # hours
//	go -C robustness run . -page "$PWD/docs/reliability.md" -report DIR
//
// A trial is one lock with a holder, waiters and one fault. The command runs rounds
// of one kind of fault after another, until each kind has -each trials or -duration
// is over. The trials of a round run at the same time. The servers of ZooKeeper can
// serve clients in several ways, the transports. Each pass over the kinds starts
// servers with the next of them, so Fairlock's trials of each kind are on all. The command writes every trial
// as a line of JSON into the folder -out, and prints a table. It exits with 1 if
// Fairlock broke a promise, or if a fault was not seen to be in effect. Violations of
// a peer's lock are only counted. With -report it runs no trials, and draws the
// results in folders into a page.
//
// # Repeat a trial
//
// For every trial that failed, the command writes the whole record into -out, with a
// picture of what the model refuses. It prints the command that repeats the trial's
// round:
//
//	go -C robustness run . -on etcd -lock fairlock -kinds holder-cut -seed 7 -round 3
//
// On ZooKeeper the command also names the -transport. The kind, the seed and the number
// of the round give the same scripts. The timing of
// servers and clients is never the same twice, so several rounds may be needed: -each
// sets the number of trials, in this round and those after it.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/robustness/onetcd"
	"github.com/fairlock/fairlock/robustness/onpg"
	"github.com/fairlock/fairlock/robustness/onredis"
	"github.com/fairlock/fairlock/robustness/onzk"
	"github.com/fairlock/fairlock/robustness/trial"
)

// service is a service that locks can be tested on.
type service struct {
	name       string
	transports []string          // of its servers, the default first; none if they have only one way to serve clients
	peers      map[string]string // the transport of a peer that has one of its own
	start      func(ctx context.Context, transport string) (trial.Service, error)
	child      trial.Opener
}

func services() []service {
	return []service{
		{
			name: onetcd.Name, child: onetcd.OpenChild,
			start: func(ctx context.Context, _ string) (trial.Service, error) { return onetcd.Start(ctx) },
		},
		{
			name: onzk.Name, child: onzk.Open, transports: onzk.Transports(),
			start: func(ctx context.Context, transport string) (trial.Service, error) { return onzk.Start(ctx, transport) },
		},
		{
			name: onpg.Name, child: onpg.OpenChild, transports: onpg.Setups(),
			start: func(ctx context.Context, setup string) (trial.Service, error) { return onpg.Start(ctx, setup) },
		},
		{
			name: onredis.Name, child: onredis.OpenChild, transports: onredis.Setups(), peers: map[string]string{onredis.Redlock: onredis.Five},
			start: func(ctx context.Context, setup string) (trial.Service, error) { return onredis.Start(ctx, setup) },
		},
	}
}

// openers returns the function that client processes use on each service.
func openers() map[string]trial.Opener {
	all := map[string]trial.Opener{}
	for _, s := range services() {
		all[s.name] = s.child
	}
	return all
}

func main() {
	code, isChild := trial.Child(openers())
	if isChild {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code = run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run runs the command, and returns its exit code.
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
		fmt.Fprintln(os.Stderr, "robustness:", err)
		return 1
	}
	return 0
}

// parse reads the command line.
func parse(args []string) (*campaign, error) {
	c := &campaign{}
	var on, kinds, page string
	var drawn bool
	flags := flag.NewFlagSet("robustness", flag.ContinueOnError)
	flags.StringVar(&on, "on", onetcd.Name, "the service")
	flags.StringVar(&c.lock, "lock", trial.Ours, "the lock: "+trial.Ours+", or a peer's")
	flags.DurationVar(&c.duration, "duration", 0, "begin no round after this time; 0 for no limit")
	flags.IntVar(&c.each, "each", 20, "how many trials of each kind to run")
	flags.IntVar(&c.parallel, "parallel", 20, "how many trials run at the same time")
	flags.DurationVar(&c.soak, "soak", time.Minute, "how long the mixed work at the end of each pass over the kinds takes; 0 for none")
	flags.StringVar(&kinds, "kinds", "", "the kinds of faults, separated by commas; all if empty")
	flags.Uint64Var(&c.seed, "seed", rand.Uint64(), "the seed of the scripts") //nolint:gosec // scripts, not secrets
	flags.Int64Var(&c.first, "round", 1, "the number of the first round of each kind, to repeat that round")
	flags.StringVar(&c.transport, "transport", "", "how the servers serve clients, on ZooKeeper: "+strings.Join(onzk.Transports(), ", ")+"; if empty, Fairlock's passes take turns with all, and a peer's have the first")
	flags.StringVar(&c.out, "out", filepath.Join(os.TempDir(), "robustness"), "the folder for results")
	flags.DurationVar(&c.restart, "anew", 30*time.Minute, "replace the service at the end of a pass if it has run for longer, because ZooKeeper keeps all logs; 0 for never")
	flags.BoolVar(&drawn, "report", false, "run no trials, and draw the results in the folders that are the arguments")
	flags.StringVar(&page, "page", "", "with -report: the page PAGE.md to draw the summary into, and all else into PAGE/README.md and a file next to that; if empty, print the tables")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if drawn {
		c.drawn = &drawing{folders: flags.Args(), page: page}
		return c, nil
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected arguments without -report: %q", flags.Args())
	}
	if kinds != "" {
		c.only = strings.Split(kinds, ",")
	}
	for _, s := range services() {
		if s.name != on {
			continue
		}
		if c.transport != "" && !slices.Contains(s.transports, c.transport) && s.peers[c.lock] != c.transport {
			return nil, fmt.Errorf("unknown transport %q; the transports on %s are %q", c.transport, s.name, s.transports)
		}
		c.service = s
		return c, nil
	}
	return nil, fmt.Errorf("unknown service %q", on)
}

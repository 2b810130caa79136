// Bench puts fairlock beside the Mutex of etcd's package concurrency: the same
// servers, the same client settings, taking turns in one run.
//
//	go run .                                  # about ten minutes on two cores
//	go run . -run 'line|churn' -cluster single
//	go run . -full                            # all sizes on all clusters
//	go run . -quick                           # does it work? (seconds)
//
// It prints a table of medians, spread and ratios and a table of goals, and
// writes both into a directory, with all figures as JSON and a plot of the
// hand-off against the length of the line as SVG.
//
// What is compared: "fairlock" and "Mutex" are contenders with a session each,
// spread over up to ten clients, as so many processes would be. "fairlock, one
// session" and "Mutex, one client" are so many goroutines of one process; there
// a Mutex still needs a session per contender, because two on one session own
// the lock together. All leases have the same TTL.
//
// A ratio is taken within a round, where both sides ran directly after one
// another, and the median of these ratios is printed. Client and server share
// the machine: ratios travel to other machines, times do not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the program. The tables go to out, what it is doing to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	p, err := parse(args, progress)
	if err != nil {
		return err
	}
	b := &bench{plan: p.plan, record: newRecord(), progress: progress, start: time.Now()}
	for _, s := range scenarios() {
		if !p.only.MatchString(s.name) {
			continue
		}
		b.say("%s: %s", s.name, s.about)
		if e := s.run(ctx, b); e != nil { // what was measured is worth telling all the same
			err = errors.Join(err, fmt.Errorf("%s: %w", s.name, e))
			b.say("%s failed: %v", s.name, e)
		}
		if ctx.Err() != nil {
			break
		}
	}
	r := newReport(b.record, p.args, time.Since(b.start))
	return errors.Join(err, r.print(out), r.write(p.dir, progress))
}

// params are what the command line asks for.
type params struct {
	plan plan
	only *regexp.Regexp
	dir  string
	args string
}

func parse(args []string, w io.Writer) (params, error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(w)
	only := f.String("run", "", "run only scenarios whose name matches this `regexp`: "+strings.Join(scenarioNames(), ", "))
	clusters := f.String("cluster", "", "run on these kinds only, a comma-separated `list` of "+strings.Join(clusterNames(), ", "))
	rounds := f.Int("rounds", 0, "how often to repeat everything; 0 is 3, and 1 with -quick")
	quick := f.Bool("quick", false, "tiny sizes on one member: the figures mean nothing")
	full := f.Bool("full", false, "all sizes on all kinds of cluster, lines to their ends: about an hour")
	dir := f.String("out", "results", "write tables, figures and plot into this `directory`; \"\" writes nothing")
	if err := f.Parse(args); err != nil {
		return params{}, err
	}
	re, err := regexp.Compile(*only)
	switch {
	case err != nil:
		return params{}, fmt.Errorf("-run: %w", err)
	case f.NArg() > 0:
		return params{}, fmt.Errorf("there are no arguments beside flags: %q", f.Args())
	case *quick && *full:
		return params{}, errors.New("-quick and -full exclude each other")
	}
	p := defaultPlan()
	switch {
	case *quick:
		p = quickPlan()
	case *full:
		p = fullPlan()
	}
	if *rounds > 0 {
		p.rounds = *rounds
	}
	if *clusters != "" {
		if p.only, err = parseClusters(*clusters); err != nil {
			return params{}, err
		}
	}
	return params{plan: p, only: re, dir: *dir, args: strings.Join(args, " ")}, nil
}

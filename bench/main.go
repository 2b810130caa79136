// Bench puts fairlock beside the locks that ship with the clients: the Mutex of
// etcd's package concurrency and go-zookeeper's zk.Lock. Both sides have the
// same servers and the same settings, and take turns in one run.
//
//	go run .                                  # about twenty minutes on two cores
//	go run . -on zk                           # one service
//	go run . -run 'line|churn' -cluster single
//	go run . -run alone -cluster three+10ms   # with a round trip added
//	go run . -full                            # all sizes on all clusters
//	go run . -quick                           # does it work? (seconds)
//
// It prints a table of medians, spread and ratios and a table of goals for each
// service, and writes them into a directory, with all figures as JSON and a plot
// of the hand-off against the length of the line as SVG.
//
// What is compared: "fairlock" and its peer, with a session for each contender,
// as so many processes would have; on etcd they are spread over up to ten
// clients, on ZooKeeper a session is a connection. "fairlock, one session" and
// "… one client" or "… one Conn" are so many goroutines of one process; there
// etcd's Mutex still needs a session per contender, because two on one session
// own the lock together. All sessions have the same TTL.
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
	"runtime/pprof"
	"strings"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt does not wait for anybody
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
	stop, err := profile(p.profile)
	if err != nil {
		return err
	}
	defer stop()
	for _, s := range p.services {
		if ctx.Err() != nil {
			break
		}
		b := &bench{service: s, plan: p.planFor(s), record: newRecord(), progress: progress, start: time.Now()}
		e := b.run(ctx, p.only.MatchString)
		r := newReport(b, p.args)
		err = errors.Join(err, e, r.print(out), r.write(p.dir, progress))
	}
	return err
}

// profile begins a profile of this process, unless file is "".
func profile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close() // a profile that is cut short says so itself
	}, nil
}

// params are what the command line asks for.
type params struct {
	services []service
	amount   amount
	rounds   int          // 0 is the plan's
	clusters []stand.Kind // nil is the plan's
	only     *regexp.Regexp
	dir      string
	profile  string // file
	args     string
}

// planFor is a service's plan, with what the command line changes.
func (p *params) planFor(s service) plan {
	all := s.plan(p.amount)
	if p.rounds > 0 {
		all.rounds = p.rounds
	}
	all.only = p.clusters
	return all
}

func parse(args []string, w io.Writer) (params, error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(w)
	on := f.String("on", everything, "the `service` to measure on: etcd, zk or "+everything)
	only := f.String("run", "", "run only scenarios whose name matches this `regexp`: "+strings.Join(scenarioNames(), ", "))
	clusters := f.String("cluster", "", "run on these kinds only, a comma-separated `list` of "+stand.Names()+", each also with a round trip such as single+4ms")
	rounds := f.Int("rounds", 0, "how often to repeat everything; 0 is 3, 1 with -quick and 5 with -full")
	tiny := f.Bool("quick", false, "tiny sizes on one member: the figures mean nothing")
	all := f.Bool("full", false, "all sizes on all kinds of cluster, lines to their ends: about an hour for each service")
	dir := f.String("out", "results", "write tables, figures and plot into this `directory`; \"\" writes nothing")
	cpu := f.String("cpuprofile", "", "write a profile of the clients' processor time into this `file`; its tags contestant and scenario tell whose it is")
	if err := f.Parse(args); err != nil {
		return params{}, err
	}
	p := params{rounds: *rounds, dir: *dir, profile: *cpu, args: strings.Join(args, " ")}
	var err error
	if p.services, err = parseServices(*on); err != nil {
		return params{}, err
	}
	if p.only, err = regexp.Compile(*only); err != nil {
		return params{}, fmt.Errorf("-run: %w", err)
	}
	if *clusters != "" {
		if p.clusters, err = parseKinds(*clusters); err != nil {
			return params{}, err
		}
	}
	switch {
	case f.NArg() > 0:
		return params{}, fmt.Errorf("there are no arguments beside flags: %q", f.Args())
	case *tiny && *all:
		return params{}, errors.New("-quick and -full exclude each other")
	case *tiny:
		p.amount = quick
	case *all:
		p.amount = full
	}
	return p, nil
}

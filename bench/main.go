// Bench compares fairlock with the locks that ship with the clients: the Mutex of etcd's package
// concurrency and go-zookeeper's zk.Lock. PostgreSQL has none, so there it is compared with what
// programs build by hand: a row that is a lease and is polled, and an advisory lock. On Redis the
// peers are redsync and redislock, with several intervals between their attempts. All sides have
// the same servers and the same settings, and take turns in one run. On membackend, a service in
// memory, there is no peer.
//
//	go run .                                  # about half an hour on two cores
//	go run . -on zk                           # one service
//	go run . -run 'line|churn' -cluster single
//	go run . -run alone -cluster three+10ms   # with a round trip added
//	go run . -run line -sizes 10000           # that many sessions
//	go run . -full                            # all sizes on all clusters
//	go run . -quick                           # does it work? (seconds)
//	go run . -old f35de04                     # against an earlier commit or tag
//
// It prints a table of goals for each service, and a table of medians, spread and ratios for each
// scenario. It writes them into a directory, with all figures as JSON and a plot of the hand-off
// against the length of the queue as SVG.
//
// "fairlock" and its peer have one session for each contender, as separate processes would have.
// On etcd these sessions use up to ten clients; on ZooKeeper a session is a connection. "fairlock,
// one session" and "… one client" or "… one Conn" are goroutines of one process. There etcd's
// Mutex still needs one session for each contender, because two contenders with one session own
// the lock together. All sessions have the same TTL. "bare requests" are only the requests that a
// fair lock needs: the join, a read and a watch of the entry ahead, the delete. They show what the
// service itself costs.
//
// The scenario metrics compares fairlock with itself: without hooks, with a collector for
// Prometheus, with OpenTelemetry's metrics and traces, and with the table of waits.
//
// With -old, fairlock at that commit is one more contestant, driven by the same code. Then every
// contestant has a process of its own: bench builds the program worker with both versions of
// fairlock, in a temporary folder, and starts it for each contestant. The table shows the earlier
// figure, the present one and the peer's, with the ratios of the present one to the other two, and
// marks what became worse in every round. Do not compare such figures with those of a run without
// -old, where contestants share the process with the servers of etcd.
//
// A ratio is taken within a round, where both sides ran directly after one another. The median of
// these ratios is printed. Client and server share the machine: ratios are valid on other
// machines, times are not.
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
	"syscall"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the program. It writes the tables to out, and messages about its progress to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	p, err := parse(args, progress)
	if err != nil {
		return err
	}
	stop, err := profile(p.profile)
	if err != nil {
		return err
	}
	defer stop()
	var earlier *old
	if p.old != "" {
		fmt.Fprintf(progress, "building %s and the present code …\n", p.old)
		earlier, err = buildOld(ctx, p.old)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, earlier.remove()) }()
	}
	for _, s := range p.services {
		if ctx.Err() != nil {
			break
		}
		if earlier != nil {
			s = earlier.with(s)
		}
		b := &bench{service: s, plan: p.planFor(s), record: newRecord(), progress: progress, start: time.Now(), old: earlier}
		e := b.run(ctx, p.only.MatchString)
		r := newReport(b, p.args)
		err = errors.Join(err, e, r.print(out), r.write(p.dir, progress))
	}
	return err
}

// profile starts a processor profile of this process, unless file is "".
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
		_ = f.Close() // readers of a truncated profile report it
	}, nil
}

// params are the parameters from the command line.
type params struct {
	services []service
	amount   amount
	rounds   int           // 0 is the number of the plan
	past     int           // of wear; 0 is the number of the plan
	open     time.Duration // of the snapshot of wear; 0 is for as many acquisitions as without
	clusters []stand.Kind  // nil is the clusters of the plan
	sizes    []int         // nil is the sizes of the plan
	only     *regexp.Regexp
	dir      string
	profile  string // file name
	old      string // commit or tag
	args     string
}

// planFor returns a service's plan, with the changes from the command line.
func (p *params) planFor(s service) plan {
	all := s.plan(p.amount)
	if p.rounds > 0 {
		all.rounds = p.rounds
	}
	if p.past > 0 {
		all.wear.past = p.past
	}
	all.wear.open = p.open
	all.only = p.clusters
	if p.sizes != nil {
		all.churn.sizes, all.line.sizes, all.line.together = p.sizes, p.sizes, nil
	}
	return all
}

func parse(args []string, w io.Writer) (params, error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(w)
	on := f.String("on", everything, "the `service` to measure on: etcd, zk, postgres, redis, mem or "+everything)
	only := f.String("run", "", "run only scenarios whose name matches this `regexp`: "+strings.Join(scenarioNames(), ", "))
	clusters := f.String("cluster", "", "run on these kinds only, a comma-separated `list` of "+stand.Names()+", each also with a round trip such as single+4ms")
	sizes := f.String("sizes", "", "a comma-separated `list` of sizes: the number of contenders of churn and of waiters of line; \"a session each\" opens that many sessions")
	past := f.Int("past", 0, "how many acquisitions wear makes; 0 is 100000")
	open := f.Duration("open", 0, "for how long wear keeps its snapshot open, however many acquisitions that is; 0 is for as many as -past")
	rounds := f.Int("rounds", 0, "how often to repeat everything; 0 is 3, 1 with -quick and 5 with -full")
	tiny := f.Bool("quick", false, "tiny sizes on one member: the figures mean nothing")
	all := f.Bool("full", false, "all sizes on all kinds of cluster, all hand-offs of a queue: about an hour for each service")
	dir := f.String("out", "results", "write tables, figures and plot into this `directory`; \"\" writes nothing")
	cpu := f.String("cpuprofile", "", "write a profile of the clients' processor time into this `file`; its tags contestant and scenario show whose time it is")
	earlier := f.String("old", "", "compare with fairlock at this `commit` or tag; the present code must be committed")
	if err := f.Parse(args); err != nil {
		return params{}, err
	}
	p := params{rounds: *rounds, past: *past, open: *open, dir: *dir, profile: *cpu, old: *earlier, args: strings.Join(args, " ")}
	var err error
	p.services, err = parseServices(*on)
	if err != nil {
		return params{}, err
	}
	p.only, err = regexp.Compile(*only)
	if err != nil {
		return params{}, fmt.Errorf("-run: %w", err)
	}
	if *clusters != "" {
		p.clusters, err = parseKinds(*clusters)
		if err != nil {
			return params{}, err
		}
	}
	if *sizes != "" {
		p.sizes, err = parseSizes(*sizes)
		if err != nil {
			return params{}, err
		}
	}
	switch {
	case f.NArg() > 0:
		return params{}, fmt.Errorf("there are no arguments other than flags: %q", f.Args())
	case p.old != "" && p.profile != "":
		return params{}, errors.New("-old and -cpuprofile exclude each other: the clients are not in this process")
	case *tiny && *all:
		return params{}, errors.New("-quick and -full exclude each other")
	case *tiny:
		p.amount = quick
	case *all:
		p.amount = full
	}
	return p, nil
}

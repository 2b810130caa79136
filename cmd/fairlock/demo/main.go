// Command demo shows what the library promises: workers take turns, one is killed, one is
// stopped and comes too late. It starts the service itself. The command fairlock is without it,
// so that what is installed has no server in it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/crowd"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/worker"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/interrupt"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/page"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/supervise"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/ui"
)

const demoHelp = `Watch five processes share one lock, and what happens when two of them fail.

The demo starts an etcd of its own inside this process, or with --on zk a
ZooKeeper server (which needs Java), with --on postgres a PostgreSQL server
(Debian's package postgresql), or with --on redis a Redis server (package
redis-server), on loopback, and five worker processes. Each of them locks, reads
a ledger, works a little, writes the ledger and unlocks, over and over. For some
20 seconds you see the queue: the holder and the waiters in order, their tokens,
and how long each has held or waited.

  fair      They hold in the order in which they asked.
  fenced    One holder is stopped (SIGSTOP) until its session has expired and
            others have held. It is woken (SIGCONT) and writes without checking
            its lock. The ledger refuses: it has seen a higher token.
  nothing   One holder is killed (SIGKILL) and cannot release. Its entry goes
  is left   when its session expires, two seconds later.

In the end all of it is checked: against the service's own record (a watch at
etcd, the transaction log of ZooKeeper, the write-ahead log of PostgreSQL, the
append-only file of Redis), the ledger's own entries and the clock of the
machine. The exit status is 0 only if every promise was kept and both faults
were seen to take effect, 1 if not, 130 after ^C.

On a terminal of 40 columns and 20 lines or more (best from 80 by 24 on) it is a
live picture, elsewhere plain lines. NO_COLOR=1 turns colours off.

With --ui it is another demonstration: a dozen worker processes contend for
locks of all kinds on an etcd, some of them are stopped, cut off from etcd or
killed, and "fairlock ui" shows it, at an address that is printed. It ends after
--for, or with ^C.`

func main() {
	code, sig, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if sig != 0 {
		supervise.Die(sig, false)
	}
	os.Exit(code)
}

// run runs the command line. It returns with which code this process is to end, or by which
// signal, and what to print.
func run(args []string) (code int, by syscall.Signal, err error) {
	cmd := root()
	cmd.SetArgs(args)
	ctx, stop := interrupt.Context(context.Background())
	defer stop()
	err = cmd.ExecuteContext(ctx)
	if err == nil {
		return exit.OK, 0, nil
	}
	by = interrupt.By(ctx)
	if by != 0 {
		return supervise.CodeSignal + int(by), by, errors.New("demo: interrupted")
	}
	e, ok := errors.AsType[*exit.Error](err)
	if !ok { // of cobra, or of a flag
		e = &exit.Error{Code: exit.Usage, Err: fmt.Errorf("demo: %w", err)}
	}
	return e.Code, 0, e.Err
}

func root() *cobra.Command {
	var plain, crowded bool
	var on, listen string
	var length time.Duration
	services := demo.Services()
	last := len(services) - 1
	words := strings.Join(services[:last], ", ") + " or " + services[last]
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch workers take turns, lose a lock and be fenced (20 s)",
		Long:  demoHelp,
		Args:  cobra.NoArgs,

		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(services, on) {
				return exit.Errorf(exit.Usage, "demo: --on %s: want %s", on, words)
			}
			if crowded {
				return demoPage(cmd, on, listen, length)
			}
			err := demo.Run(cmd.Context(), demo.Options{On: on, Out: os.Stdout, Plain: plain, Worker: workerArgs})
			switch {
			case err == nil:
				return nil
			case errors.Is(err, demo.ErrBroken):
				return exit.With(exit.Failed, err)
			}
			return exit.With(exit.Software, err)
		},
	}
	cmd.Flags().StringVar(&on, "on", worker.Etcd, "start "+words)
	cmd.Flags().BoolVar(&plain, "plain", false, "print lines, even on a terminal")
	cmd.Flags().BoolVar(&crowded, "ui", false, "show a dozen workers on the page of fairlock ui")
	cmd.Flags().DurationVar(&length, "for", 10*time.Minute, "with --ui: end after this `DURATION`")
	cmd.Flags().StringVar(&listen, "listen", page.FreePort, "with --ui: listen on `ADDRESS`")
	cmd.AddCommand(workerCommand(), crowdCommand())
	return cmd
}

// demoPage runs the demonstration of the page.
func demoPage(cmd *cobra.Command, on, listen string, length time.Duration) error {
	if on != worker.Etcd {
		return exit.Errorf(exit.Usage, "--ui is on etcd only")
	}
	at := page.Address{Listen: listen}
	hosts, err := at.Hosts(cmd.Context())
	if err != nil {
		return err
	}
	l, err := at.Socket(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // fails if the server has closed it
	err = crowd.Run(cmd.Context(), crowd.Options{
		Out: cmd.OutOrStdout(), For: length, Every: 8 * time.Second, Worker: crowdArgs,
		Page: func(ctx context.Context, s *session.Session) error {
			fmt.Fprintf(cmd.OutOrStdout(), "http://%s/\n", l.Addr())
			return page.Serve(ctx, l, ui.Handler(s, &ui.Options{
				Title: "etcd of the demo", AllowEvict: true, Hosts: hosts, Logger: slog.New(slog.DiscardHandler),
			}))
		},
	})
	return exit.Of(err)
}

// crowdCommand is a worker of --ui.
func crowdCommand() *cobra.Command {
	var cfg crowd.Config
	cmd := &cobra.Command{
		Use:    "crowd",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt) // as workerCommand does
			return exit.With(exit.Software, crowd.Work(cmd.Context(), cfg, os.Stdin))
		},
	}
	cmd.Flags().StringVar(&cfg.Name, "name", "", "the worker's name")
	cmd.Flags().StringVar(&cfg.Role, "role", "", "what it does")
	cmd.Flags().StringVar(&cfg.Server, "server", "", "the address of etcd")
	return cmd
}

// crowdArgs is the command line of a worker of --ui.
func crowdArgs(c crowd.Config) []string {
	return []string{"crowd", "--name", c.Name, "--role", c.Role, "--server", c.Server}
}

// workerCommand is a worker of the demo; only the demo starts it.
func workerCommand() *cobra.Command {
	var cfg worker.Config
	cmd := &cobra.Command{
		Use:    "worker",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// ^C goes to all processes of the terminal. The demo gets it too, and ends
			// its workers itself.
			signal.Ignore(os.Interrupt)
			if err := worker.Run(cmd.Context(), cfg, os.Stdin, os.Stdout); err != nil {
				return exit.With(exit.Software, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Name, "name", "", "the worker's name")
	f.StringVar(&cfg.Lock, "lock", "", "the lock")
	f.StringVar(&cfg.On, "on", "", "the service")
	f.StringVar(&cfg.Server, "server", "", "its address")
	f.StringVar(&cfg.Ledger, "ledger", "", "the URL of the ledger")
	f.DurationVar(&cfg.TTL, "ttl", 0, "of the session")
	f.DurationVar(&cfg.Work, "work", 0, "how long a job takes")
	f.BoolVar(&cfg.Careless, "careless", false, "write without looking whether the lock is held")
	return cmd
}

// workerArgs is the command line of a worker.
func workerArgs(c worker.Config) []string {
	args := []string{
		"worker", "--name", c.Name, "--lock", c.Lock, "--on", c.On, "--server", c.Server,
		"--ledger", c.Ledger, "--ttl", c.TTL.String(), "--work", c.Work.String(),
	}
	if c.Careless {
		args = append(args, "--careless")
	}
	return args
}

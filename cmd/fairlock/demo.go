package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/crowd"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/worker"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/ui"
)

const demoHelp = `Watch five processes share one lock, and what happens when two of them fail.

The demo starts an etcd of its own inside this process, or with --on zk a
ZooKeeper server (which needs Java), on loopback, and five worker
processes. Each of them locks, reads a ledger, works a little, writes the ledger
and unlocks, over and over. For some 20 seconds you see the queue: the holder
and the waiters in order, their tokens, and how long each has held or waited.

  fair      They hold in the order in which they asked.
  fenced    One holder is stopped (SIGSTOP) until its session has expired and
            others have held. It is woken (SIGCONT) and writes without checking
            its lock. The ledger refuses: it has seen a higher token.
  nothing   One holder is killed (SIGKILL) and cannot release. Its entry goes
  is left   when its session expires, two seconds later.

In the end all of it is checked: against the service's own record (a watch at
etcd, the transaction log of ZooKeeper), the ledger's own entries and the clock
of the machine. The exit status is 0 only if every promise was kept and both
faults were seen to take effect, 1 if not, 130 after ^C.

On a terminal of 40 columns and 20 lines or more (best from 80 by 24 on) it is a
live picture, elsewhere plain lines. NO_COLOR=1 turns colours off.

With --ui it is another demonstration: a dozen worker processes contend for
locks of all kinds on an etcd, some of them are stopped, cut off from etcd or
killed, and "fairlock ui" shows it, at an address that is printed. It ends after
--for, or with ^C.`

func demoCommand() *cobra.Command {
	var plain, page bool
	listen, length := "", span{d: 10 * time.Minute, set: true}
	on := choice{of: demo.Services()}
	on.value = on.of[0]
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch workers take turns, lose a lock and be fenced (20 s)",
		Long:  demoHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if page {
				return demoPage(cmd, on.value, listen, length.d)
			}
			err := demo.Run(cmd.Context(), demo.Options{On: on.value, Out: os.Stdout, Plain: plain, Worker: workerArgs})
			switch {
			case err == nil:
				return nil
			case errors.Is(err, demo.ErrBroken):
				return exit.With(exit.Failed, err)
			}
			return exit.With(exit.Software, err)
		},
	}
	cmd.Flags().Var(&on, "on", "the service to start: "+on.words())
	cmd.Flags().BoolVar(&plain, "plain", false, "print lines, even on a terminal")
	cmd.Flags().BoolVar(&page, "ui", false, "show a dozen workers on the page of fairlock ui")
	cmd.Flags().Var(&length, "for", "with --ui: end after this `DURATION`")
	cmd.Flags().StringVar(&listen, "listen", "", "with --ui: listen on this loopback `ADDRESS`")
	cmd.AddCommand(workerCommand(), crowdCommand())
	return cmd
}

// demoPage runs the demonstration of the page.
func demoPage(cmd *cobra.Command, on, listen string, length time.Duration) error {
	if on != worker.Etcd {
		return exit.Errorf(exit.Usage, "--ui is on etcd only")
	}
	k := uiFlags{listen: cmp.Or(listen, "127.0.0.1:0"), allowEvict: true}
	hosts, err := k.names(cmd.Context())
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", k.listen)
	if err != nil {
		return exit.Errorf(exit.Failed, "--listen %s: %w", k.listen, err)
	}
	defer func() { _ = l.Close() }() // fails if the server has closed it
	err = crowd.Run(cmd.Context(), crowd.Options{
		Out: cmd.OutOrStdout(), For: length, Every: 8 * time.Second, Worker: crowdArgs,
		Page: func(ctx context.Context, s *session.Session) error {
			fmt.Fprintf(cmd.OutOrStdout(), "http://%s/\n", l.Addr())
			return servePage(ctx, l, ui.Handler(s, &ui.Options{
				Title: "etcd of the demo", AllowEvict: true, Hosts: hosts, Logger: slog.New(slog.DiscardHandler),
			}))
		},
	})
	return exit.Of(err)
}

// crowdCommand is a worker of demo --ui.
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

// crowdArgs is the command line of a worker of demo --ui.
func crowdArgs(c crowd.Config) []string {
	return []string{"demo", "crowd", "--name", c.Name, "--role", c.Role, "--server", c.Server}
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
		"demo", "worker", "--name", c.Name, "--lock", c.Lock, "--on", c.On, "--server", c.Server,
		"--ledger", c.Ledger, "--ttl", c.TTL.String(), "--work", c.Work.String(),
	}
	if c.Careless {
		args = append(args, "--careless")
	}
	return args
}

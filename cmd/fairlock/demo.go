package main

import (
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/worker"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/exit"
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
live picture, elsewhere plain lines. NO_COLOR=1 turns colours off.`

func demoCommand() *cobra.Command {
	var plain bool
	on := choice{of: demo.Services()}
	on.value = on.of[0]
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch workers take turns, lose a lock and be fenced (20 s)",
		Long:  demoHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
	cmd.AddCommand(workerCommand())
	return cmd
}

// workerCommand is what the demo starts; nobody else has a use for it.
func workerCommand() *cobra.Command {
	var cfg worker.Config
	cmd := &cobra.Command{
		Use:    "worker",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// ^C goes to all processes of the terminal. The demo hears it too,
			// and tells us to leave in its own time.
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
